"""Tests that the page of paper runs lists each experiment, and that each folder has what the page requires.

The figures are recomputed from the files of the runs, without rlox's code.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import agree
import pytest

from rlox.statistics import compare

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "paper_runs.md").read_text(encoding="utf-8")
EXPERIMENTS = sorted(p for p in (ROOT / "experiments").iterdir() if p.is_dir())
ROWS = {
    match[1]: [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if (match := re.match(r"\| \[(\w+)\]\(\.\./experiments/\1/README\.md\) \|", line))
}
# Comparisons use runs of other experiments: ELSEWHERE has the paths of runs outside their own folders.
COMPARED = (
    "PPO_CartPole-v1",
    "A2C_CartPole-v1",
    "DQN_CartPole-v1",
    "PPO_Acrobot-v1",
    "A2C_Acrobot-v1",
    "DQN_Acrobot-v1",
    "PPO_Pendulum-v1",
    "SAC_Pendulum-v1",
    "TD3_Pendulum-v1",
)
ELSEWHERE = {
    **{f"sb3_comparison/{leg}/rlox": f"classic_control_suite/results/{leg}_rlox" for leg in COMPARED},
    **{f"native_engine/{leg}/torch": f"classic_control_suite/results/{leg}_rlox" for leg in COMPARED},
    **{f"native_engine/hybrid_{leg}/torch": f"classic_control_suite/results/{leg}_rlox" for leg in COMPARED},
    "sb3_comparison/SAC_Pendulum-v1/sb3": "off_policy_control/results/Pendulum-v1_SAC_sb3",
    "sb3_comparison/TD3_Pendulum-v1/sb3": "off_policy_control/results/Pendulum-v1_TD3_sb3",
}


def readme(experiment: Path) -> str:
    return (experiment / "README.md").read_text(encoding="utf-8")


def test_the_page_lists_each_experiment_and_no_other():
    assert sorted(ROWS) == [p.name for p in EXPERIMENTS]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda p: p.name)
def test_an_experiments_row_has_claim_command_figure_and_check(experiment):
    _, claim, command, figure, check = ROWS[experiment.name]
    assert len(claim) > 20
    assert len(check) > 10
    script = command.strip("`")
    assert (ROOT / script).is_file()
    assert script in readme(experiment), "the row and the README give the same command"
    assert f"](../experiments/{experiment.name}/" in figure


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda p: p.name)
def test_an_experiments_readme_has_claim_protocol_command_and_figure(experiment):
    text = readme(experiment)
    places = [text.find(word) for word in ("**Claim.**", "**Protocol.**", "**Rebuild**")]
    assert -1 < places[0] < places[1] < places[2]
    assert re.search(r"^```sh\n.*benchmarks/learning/\w+\.py", text[places[2] :], re.MULTILINE)
    shown = re.findall(r"!\[[^]]+\]\((\w+\.png)\)", text)
    table = (experiment / "table.md").read_text(encoding="utf-8").strip().split("\n\n")
    assert all(part.strip() in text for part in table), "the README shows the table as it was written"
    assert all((experiment / name).is_file() for name in shown)
    assert {p.name for p in experiment.glob("*.png")} == set(shown)


def of_runs(about: str, *places: str) -> list[float]:
    """Return the results of the committed runs `PLACE_s0.json`, `_s1`, ..., in order of seed."""
    found = [p for place in places for p in (ROOT / "experiments").glob(f"{place}_s*.json")]
    paths = sorted(found, key=lambda p: int(p.stem.split("_s")[-1]))
    runs = [json.loads(path.read_text(encoding="utf-8"))[about] for path in paths]
    return [fmean(run) if isinstance(run, list) else run for run in runs]


def middle(scores: list[float]) -> float:
    """Return the mean without the lowest and the highest quarter."""
    cut = len(scores) // 4
    return fmean(sorted(scores)[cut : len(scores) - cut])


def legs(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of legs, without versions, scales and aggregates."""
    parts = {name: leg for name, leg in document.items() if isinstance(leg, dict)}
    return {name: leg for name, leg in parts.items() if {"total_steps", "difference"} & set(leg)}


def scores_by_figure(experiment: str, document: dict[str, Any]) -> dict[str, list[float]]:
    """Return the scores of each figure, read from the files of its runs without rlox's code."""
    found = {}
    for name, leg in legs(document).items():
        for about in {"behaviour", "bc"} & set(leg):
            found[f"{name}/{about}"] = of_runs(about, f"{experiment}/results/{name}")
        if "follows" in leg:
            found[f"{name}/follows"] = of_runs("follows", f"{experiment}/results/{name}_DT")
        for system in leg.get("systems", {"rlox", "sb3"} & set(leg)):
            place = f"{experiment}/results/{name}_{system.replace(' ', '-')}"
            places = {place, ELSEWHERE.get(f"{experiment}/{name}/{system}", place)}
            own = f"{name}/systems/{system}" if "systems" in leg else f"{name}/{system}"
            found[own] = of_runs("returns", *places)
            if "systems" in leg and "training" in leg["systems"][system]:
                found[f"{own}/training"] = of_runs("training", *places)
            if "training" in leg:
                found[f"{name}/training/{system}"] = of_runs("training", *places)
            if "normalised" in leg:
                ends = document["normalisation"][leg["env"]]
                low, high = ends["random"], ends["reference"]
                scaled = [(score - low) / (high - low) for score in found[own]]
                found[f"{name}/normalised/{system}"] = scaled
    return found


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda p: p.name)
def test_every_run_has_a_commit_in_its_file_or_in_origin_json(experiment):
    without = set()
    for path in (experiment / "results").rglob("*.json"):
        run = json.loads(path.read_text(encoding="utf-8"))
        if "commit" not in run and "commit" not in run.get("provenance", {}):
            without.add(str(path.relative_to(experiment)))
    origin = experiment / "origin.json"
    named = json.loads(origin.read_text(encoding="utf-8")) if origin.exists() else {"commits": {}}
    assert all(re.fullmatch("[0-9a-f]{40}", commit) for commit in named["commits"])
    told = [name for names in named["commits"].values() for name in names]
    assert sorted(told) == sorted(without)


def at(document: dict[str, Any], path: str) -> Any:
    """Return the value at a path of names; names have no slash."""
    for name in path.split("/"):
        document = document[name]
    return document


def figures(node: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all entries that have scores or are a list of them."""
    if isinstance(node, dict):
        if "scores" in node:
            yield path
        for name, below in node.items():
            if name != "scores":
                yield from figures(below, f"{path}/{name}".lstrip("/"))
    elif isinstance(node, list) and len(node) > 2 and isinstance(node[0], float):
        yield path


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda p: p.name)
def test_an_experiments_figures_are_those_of_its_runs(experiment):
    document = json.loads((experiment / "expected.json").read_text(encoding="utf-8"))
    scores = scores_by_figure(experiment.name, document)
    assert sorted(scores) == sorted(figures(document))
    for path, own in scores.items():
        figure = at(document, path)
        assert len(own) > 2, path
        if isinstance(figure, list):
            assert figure == pytest.approx(own), path
            continue
        assert figure["scores"] == pytest.approx(own), path
        assert figure["iqm"] == pytest.approx(middle(own)), path
        low, high = figure["ci95"]
        ends = pytest.approx([min(own), max(own)])
        assert [min(low, *own), max(high, *own)] == ends, path
        assert low <= figure["iqm"] <= high, path
    for name, leg in legs(document).items():
        if {"rlox", "sb3"} <= set(leg):
            apart = middle(scores[f"{name}/rlox"]) - middle(scores[f"{name}/sb3"])
            assert leg["difference"]["iqm"] == pytest.approx(apart), name


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda p: p.name)
def test_unchanged_runs_agree_and_much_lower_scores_differ(experiment):
    document = json.loads((experiment / "expected.json").read_text(encoding="utf-8"))
    scores = scores_by_figure(experiment.name, document)

    def words(off: float) -> dict[str, str]:
        found = json.loads(json.dumps(document))
        for path, own in scores.items():
            moved = [score - off for score in own]
            if isinstance(at(found, path), list):
                above, _, name = path.rpartition("/")
                at(found, above)[name] = moved
            else:
                at(found, path).update({"scores": moved, "iqm": middle(moved)})
        return {v.figure: v.label for v in compare(document, found)}

    assert set(words(0.0).values()) == {"agrees"}
    assert {words(1e5)[path] for path in scores} == {"differs"}


def test_the_middle_of_ten_scores_is_the_mean_of_six_of_them():
    path = ROOT / "experiments" / "sb3_comparison" / "expected.json"
    leg = json.loads(path.read_text(encoding="utf-8"))["DQN_Acrobot-v1"]
    assert len(leg["sb3"]["scores"]) == 10
    six = [
        -76.1,
        -75.98,
        -74.96,
        -74.86,
        -73.86,
        -73.42,
    ]  # without -205.14, -76.48, -68.44 and -67.76
    assert leg["sb3"]["iqm"] == pytest.approx(sum(six) / 6)


def test_the_agree_command_prints_figures_that_differ_and_exits_with_1(tmp_path, monkeypatch, capsys):
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    scores = [500.0, 497.0, 499.0, 500.0, 495.0]
    before.write_text(json.dumps({"ppo": {"iqm": 498.6, "scores": scores}, "old": [1.0, 2.0]}))
    after.write_text(json.dumps({"ppo": {"iqm": 9.0, "scores": [9.0, 9.1, 8.9, 9.0, 9.0]}}))
    monkeypatch.setattr(sys, "argv", ["agree.py", str(before), str(after)])
    assert agree.main() == 1
    said = capsys.readouterr().out
    assert re.search(r"^\| ppo \| 498\.6 \| 9 \| .*\| differs \|$", said, re.MULTILINE)
    assert "| old | 1.5 | - | - | unknown: not in what was found |" in said
    assert said.endswith("\n0 agrees, 1 differs, 1 unknown\n")
    monkeypatch.setattr(sys, "argv", ["agree.py", str(before), str(before)])
    assert agree.main() == 0


def test_the_agree_command_names_a_file_that_it_cannot_compare(tmp_path, monkeypatch):
    path = tmp_path / "figures.json"
    for text, said in (("{", "figures.json: "), ("{}", "expected has no figures")):
        path.write_text(text)
        monkeypatch.setattr(sys, "argv", ["agree.py", str(path), str(path)])
        with pytest.raises(SystemExit, match=said):
            agree.main()
