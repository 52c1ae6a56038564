"""Tests that a report is readable: it draws losses, uses meaningful scales and explains its letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.reports import ReportPage, make_run

from rlox_cli.commands.report import ReportConfig
from rlox_cli.report.build import report
from rlox_cli.report.read import read_run
from rlox_cli.report.study import group_runs


def read_page(folder: Path, **settings: Any) -> ReportPage:
    config = {"formats": (), "resamples": 200, **settings}
    assert report(ReportConfig(runs=(str(folder),), **config)) == 0
    return ReportPage(folder / "report" / "report.html")


def test_losses_and_entropy_are_drawn_as_the_iqm_over_runs(tmp_path: Path) -> None:
    for seed, loss in enumerate((1.0, 3.0)):
        measures = {
            "loss/value": {100: loss, 200: loss / 2},
            "policy/entropy": {100: 0.6, 200: 0.5},
            "rollout/other": {100: 9.0, 200: 9.0},
            "loss/once": {100: 1.0},
        }
        make_run(tmp_path / f"{seed}", 1.0, seed=seed, measures=measures)
    page = read_page(tmp_path, formats=("png",))
    panels = {k: v for k, v in page.data["panels"].items() if k.startswith("plot-measures")}
    titles = {v["layout"]["yaxis"]["title"]["text"]: v for v in panels.values()}
    assert set(titles) == {"loss/value", "policy/entropy"}
    (line,) = titles["loss/value"]["data"]
    assert (line["x"], line["y"]) == ([100, 200], [2, 1])
    assert "Losses and entropy" in page.text
    assert (tmp_path / "report" / "figures" / "measures.png").is_file()


def make_two_tasks(folder: Path) -> Path:
    runs = [
        ("ppo", "A-v0", 1.0),
        ("ppo", "A-v0", 3.0),
        ("ppo", "B-v0", 10.0),
        ("ppo", "B-v0", 20.0),
    ]
    runs += [("a2c", "A-v0", 2.0)]
    for number, (algo, env, score) in enumerate(runs):
        make_run(
            folder / f"{number}",
            score,
            algo=algo,
            env=env,
            seed=number,
            training={100: -9.0, 200: -8.0},
        )
    return folder


def test_plots_label_their_axes_and_show_the_scale_from_0_to_1(tmp_path: Path) -> None:
    page = read_page(make_two_tasks(tmp_path))
    profile = page.data["panels"]["plot-profile-0"]["layout"]
    assert profile["xaxis"]["title"]["text"] == "score τ"
    assert profile["yaxis"]["title"]["text"] == "fraction of runs with score &gt; τ"
    efficiency = page.data["panels"]["plot-sample_efficiency-0"]["layout"]["yaxis"]
    assert efficiency["title"]["text"] == "IQM, final scores from 0 to 1"
    low, high = efficiency["range"]
    assert low < 0 < 1 < high


def test_a_performance_profile_says_how_many_runs_and_tasks_a_line_has(tmp_path: Path) -> None:
    page = read_page(make_two_tasks(tmp_path))
    traces = page.data["panels"]["plot-profile-0"]["data"]
    assert {t["name"]: t["text"] for t in traces if "text" in t} == {
        "ppo": "4 runs on 2 tasks",
        "a2c": "1 run on 1 task",
    }


def test_a_method_on_one_task_has_no_score_over_all_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = read_page(make_two_tasks(tmp_path))
    assert page.tables["table-aggregate"].column("method") == ["ppo"]
    overall = capsys.readouterr().out.partition("over all tasks")[2]
    assert "ppo: " in overall and "a2c: " not in overall


def test_a_task_whose_runs_all_score_the_same_has_no_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_two_tasks(tmp_path)
    make_run(tmp_path / "5", 7.0, env="C-v0")
    page = read_page(tmp_path)
    assert page.tables["table-aggregate"].column("tasks") == ["2"]
    assert "C-v0 is left out: its runs all score 7.000; ranges.C-v0 gives it a scale" in page.text
    other = tmp_path / "other"
    for env in ("A-v0", "B-v0"):
        make_run(other / env, 7.0, env=env)
    capsys.readouterr()
    assert "table-aggregate" not in read_page(other).tables
    assert "over all tasks" not in capsys.readouterr().out


def test_the_terminal_explains_method_letters_and_shortens_a_long_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = {"learning_rate": 0.001, "clip_eps": 0.1, "ent_coef": 0.01, "vf_coef": 0.25}
    for place, settings in enumerate((long, {key: 0.5 for key in long})):
        make_run(tmp_path / f"{place}", 1.0 + place, settings=settings)
    make_run(tmp_path / "9", None, status="failed", reason="EnvError: " + "x" * 900)
    read_page(tmp_path)
    out = capsys.readouterr().out
    (said,) = [line for line in out.splitlines() if line.startswith("  ppo (A): learning_rate=")]
    assert "learning_rate=0.001" in said and "ent_coef=0.01" in said
    assert "where settings differ" in out
    (failed,) = [line for line in out.splitlines() if line.startswith("  failed: 9: EnvError: ")]
    assert failed.endswith("…") and len(failed) < 200


@pytest.mark.parametrize(
    ("rule", "methods"),
    [
        ("sb3", ["ppo"]),
        ("relative", ["ppo (env.normalize_rule=relative)", "ppo (env.normalize_rule=sb3)"]),
    ],
)
def test_the_report_groups_runs_without_rule_keys_by_their_old_rules(
    tmp_path: Path, rule: str, methods: list[str]
) -> None:
    today = {"seeding": "keyed", "normalize_rule": rule}
    for seed, keys in enumerate(({}, today)):
        folder = make_run(tmp_path / f"{seed}", 1.0 + seed, seed=seed)
        env = {"id": "CartPole-v1", "normalize_obs": True, **keys}
        tree = {"algo": {"name": "ppo"}, "env": env, "seed": seed}
        (folder / "config.yaml").write_text(json.dumps(tree))
    found = group_runs(read_run(tmp_path / f"{seed}") for seed in range(2))
    assert sorted(found.methods) == methods


RESUME_HINT = "; rlox resume goes on without it, and writes it again"


@pytest.mark.parametrize(
    ("name", "data", "state", "reason"),
    [
        ("status.json", None, "unreadable", f"status.json is missing{RESUME_HINT}"),
        ("status.json", "{", "unreadable", f"status.json is damaged{RESUME_HINT}"),
        ("result.json", None, "done", f"result.json is missing{RESUME_HINT}"),
        ("result.json", "[]", "done", f"result.json is damaged{RESUME_HINT}"),
        ("result.json", '{"score": NaN}', "done", "its score is 'nan', not a number"),
        ("result.json", '{"score": "high", "train_return_last100": 2.0}', "done", "'high', not a number"),
    ],
)  # fmt: skip
def test_a_run_that_does_not_count_names_the_file_that_is_missing_or_damaged(
    tmp_path: Path, name: str, data: str | None, state: str, reason: str
) -> None:
    file = make_run(tmp_path / "0_a", 5.0) / name
    file.unlink()
    if data is not None:
        file.write_text(data)
    run = read_run(tmp_path / "0_a")
    assert (run.status, run.is_counted) == (state, False)
    assert reason in run.reason
