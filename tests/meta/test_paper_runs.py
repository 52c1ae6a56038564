"""Each experiment is on the page of paper runs, and has what the page says that a folder has."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

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
    assert all(part.strip() in text for part in table), (
        "the README shows the table as it was written"
    )
    assert all((experiment / name).is_file() for name in shown)
    assert {p.name for p in experiment.glob("*.png")} == set(shown)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda p: p.name)
def test_an_experiments_figures_can_be_compared(experiment):
    document = json.loads((experiment / "expected.json").read_text(encoding="utf-8"))
    verdicts = compare(document, document)
    assert verdicts
    assert all(verdict.agrees for verdict in verdicts)


def test_the_command_says_what_differs(tmp_path, monkeypatch, capsys):
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


def test_a_file_that_cannot_be_compared_is_told(tmp_path, monkeypatch):
    path = tmp_path / "figures.json"
    for text, said in (("{", "figures.json: "), ("{}", "expected has no figures")):
        path.write_text(text)
        monkeypatch.setattr(sys, "argv", ["agree.py", str(path), str(path)])
        with pytest.raises(SystemExit, match=said):
            agree.main()
