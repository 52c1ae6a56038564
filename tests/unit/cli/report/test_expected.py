"""A report held against the figures that are expected of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli
from helpers.reports import Read, make_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed in range(5):
        settings = {"learning_rate": 1e-3}
        make_run(tmp_path / "runs" / f"{seed}_x", 100.0 + seed, seed=seed, settings=settings)
    return tmp_path / "runs"


def leg(scores: list[float], **more: Any) -> dict[str, Any]:
    """An experiment's file with one leg."""
    figure = {
        "iqm": sorted(scores)[len(scores) // 2],
        "ci95": [min(scores), max(scores)],
        "scores": scores,
    }
    return {
        "schema_version": 1,
        "PPO": {"algo": "ppo", "env": "CartPole-v1", "rlox": figure, **more},
    }


def said(cli: Cli, expected: Any, *more: str) -> tuple[int, str]:
    Path("expected.json").write_text(json.dumps(expected))
    result = cli("report", "runs", "formats=[]", "resamples=100", "expected=expected.json", *more)
    return result.code, result.out + result.err


def test_a_report_agrees_with_itself(cli: Cli, runs: Path) -> None:
    assert cli("report", "runs", "formats=[]", "resamples=100").code == 0
    before = json.loads((runs / "report/report.json").read_text())
    code, out = said(cli, before, "strict=true")
    assert (code, "2 of 2 expected figures agree" in out) == (0, True)
    table = Read(runs / "report/report.html").tables["table-expected"]
    assert table.column("figure") == ["CartPole-v1/ppo", "CartPole-v1/ppo/total_steps"]
    assert table.column("verdict") == ["agrees", "agrees"]


def test_a_figure_that_differs_is_named_and_ends_with_1_where_that_is_asked(
    cli: Cli, runs: Path
) -> None:
    code, out = said(cli, leg([500.0, 499.0, 500.0, 498.0, 500.0]))
    assert code == 0
    assert "differs: CartPole-v1/ppo: expected 500.0" in out
    assert Read(runs / "report/report.html").tables["table-expected"].column("verdict") == [
        "differs"
    ]
    assert said(cli, leg([500.0, 499.0, 500.0, 498.0, 500.0]), "strict=true")[0] == 1


def test_an_experiments_leg_agrees_where_its_scores_could_be_these(cli: Cli, runs: Path) -> None:
    code, out = said(cli, leg([99.0, 101.0, 103.0, 105.0, 102.0]), "strict=true")
    assert (code, "1 of 1 expected figures agree" in out) == (0, True)


def test_a_figure_that_was_not_found_fails_a_strict_report(cli: Cli, runs: Path) -> None:
    wanted = leg([1.0, 2.0])
    wanted["PPO"]["env"] = "Acrobot-v1"
    code, out = said(cli, wanted, "strict=true")
    assert code == 1
    assert "unknown: Acrobot-v1/ppo: expected 2.000" in out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[", "no JSON"),
        ("[]", "expected a mapping"),
        ("{}", "no figures"),
        ('{"tasks": {"a": {"b": {"ci95": "x", "iqm": 1}}}}', "cannot be compared"),
        (
            '{"schema_version": 9, "tasks": {"a": {"b": {"ci95": [1, 2], "iqm": 1}}}}',
            "schema_version",
        ),
    ],
)
def test_a_file_that_holds_no_figures_is_wrong_use(
    cli: Cli, runs: Path, content: str, says: str
) -> None:
    Path("expected.json").write_text(content)
    result = cli("report", "runs", "formats=[]", "expected=expected.json")
    assert (result.code, says in result.err) == (2, True), result.err
    assert not (runs / "report").exists()
