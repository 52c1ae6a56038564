"""Tests that a report compares its figures with expected ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli
from helpers.reports import ReportPage, make_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed in range(5):
        settings = {"learning_rate": 1e-3}
        make_run(tmp_path / "runs" / f"{seed}_x", 100.0 + seed, seed=seed, settings=settings)
    return tmp_path / "runs"


def leg(scores: list[float], **more: Any) -> dict[str, Any]:
    """Return the content of an experiment's file with one leg."""
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


def test_a_report_agrees_with_its_own_figures_as_expected_ones(cli: Cli, runs: Path) -> None:
    assert cli("report", "runs", "formats=[]", "resamples=100").code == 0
    before = json.loads((runs / "report/report.json").read_text())
    code, out = said(cli, before, "strict=true")
    assert (code, "2 of 2 expected figures agree" in out) == (0, True)
    table = ReportPage(runs / "report/report.html").tables["table-expected"]
    assert table.column("figure") == ["CartPole-v1/ppo", "CartPole-v1/ppo/total_steps"]
    assert table.column("verdict") == ["agrees", "agrees"]


def test_a_report_names_a_figure_that_differs_and_with_strict_ends_with_1(cli: Cli, runs: Path) -> None:
    code, out = said(cli, leg([500.0, 499.0, 500.0, 498.0, 500.0]))
    assert code == 0
    assert "differs: CartPole-v1/ppo: expected 500.0" in out
    assert ReportPage(runs / "report/report.html").tables["table-expected"].column("verdict") == ["differs"]
    assert said(cli, leg([500.0, 499.0, 500.0, 498.0, 500.0]), "strict=true")[0] == 1


def test_the_leg_of_an_experiment_with_compatible_scores_agrees(cli: Cli, runs: Path) -> None:
    code, out = said(cli, leg([99.0, 101.0, 103.0, 105.0, 102.0]), "strict=true")
    assert (code, "1 of 1 expected figures agree" in out) == (0, True)


def test_a_figure_that_was_not_found_fails_a_strict_report(cli: Cli, runs: Path) -> None:
    wanted = leg([2.0, 2.0])
    wanted["PPO"]["env"] = "Acrobot-v1"
    code, out = said(cli, wanted, "strict=true")
    assert code == 1
    assert "unknown: Acrobot-v1/ppo: expected 2.000" in out


RANGES = ("ranges.CartPole-v1=[0,500]", "ranges.Acrobot-v1=[-500,0]")
PAIR = "improvement/ppo over sac"


@pytest.fixture
def two_methods(tmp_path: Path) -> Path:
    """Write runs on two tasks; on both PPO scores far above SAC."""
    for seed in range(5):
        for algo, off in (("ppo", 0.0), ("sac", -50.0)):
            for env, score in (("CartPole-v1", 300.0), ("Acrobot-v1", -200.0)):
                place = tmp_path / "runs" / f"{seed}_{algo}_{env}"
                make_run(place, score + off + seed, algo=algo, env=env, seed=seed)
    return tmp_path / "runs"


def reported(cli: Cli, runs: Path, *more: str) -> dict[str, Any]:
    """Return the figures of a report on these runs."""
    assert cli("report", "runs", "formats=[]", "resamples=100", *more).code == 0
    found: dict[str, Any] = json.loads((runs / "report/report.json").read_text())
    return found


def judged(runs: Path) -> dict[str, tuple[str, str]]:
    """Return the page's verdict and reason for each figure."""
    table = ReportPage(runs / "report/report.html").tables["table-expected"]
    words = zip(table.column("verdict"), table.column("because"), strict=True)
    return dict(zip(table.column("figure"), words, strict=True))


def test_figures_over_all_tasks_and_probabilities_of_improvement_are_compared_too(
    cli: Cli, two_methods: Path
) -> None:
    before = reported(cli, two_methods, *RANGES)
    code, out = said(cli, before, "strict=true", *RANGES)
    assert (code, "11 of 11 expected figures agree" in out) == (0, True)
    assert {"all tasks/ppo", "all tasks/sac", PAIR} < set(judged(two_methods))
    before["all tasks"]["ppo"] |= {"iqm": 0.2, "ci95": [0.19, 0.21]}
    before["improvement"]["ppo over sac"] |= {"estimate": 0.1, "ci95": [0.0, 0.2]}
    code, out = said(cli, before, "strict=true", *RANGES)
    assert code == 1
    found = {name: word for name, (word, _) in judged(two_methods).items() if word != "agrees"}
    assert found == {"all tasks/ppo": "differs", PAIR: "differs"}
    assert f"differs: {PAIR}: expected 0.1" in out


def test_aggregates_on_another_scale_get_the_verdict_unknown(cli: Cli, two_methods: Path) -> None:
    before = reported(cli, two_methods, *RANGES)
    said(cli, before, "ranges.CartPole-v1=[0,1000]", RANGES[1])
    words = judged(two_methods)
    because = "on another scale: give both reports the same ranges"
    assert words["all tasks/ppo"] == words["all tasks/sac"] == ("unknown", because)
    assert words[PAIR][0] == "agrees"  # the order of two methods is the same on every scale


def test_an_expected_pair_or_total_that_was_not_found_fails_a_strict_report(
    cli: Cli, two_methods: Path
) -> None:
    before = reported(cli, two_methods)
    before["improvement"] = {"a2c over ppo": {"estimate": 0.5}}  # of single runs, so without an interval
    before["all tasks"]["a2c"] = {"iqm": 0.5}
    code, out = said(cli, before, "strict=true")
    assert code == 1
    assert "unknown: improvement/a2c over ppo: expected 0.5" in out
    assert "unknown: all tasks/a2c: expected 0.5" in out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[", "not JSON"),
        ("[]", "expected a mapping"),
        ("{}", "no figures"),
        ('{"tasks": {"a": {"b": {"ci95": "x", "iqm": 1}}}}', "cannot be compared"),
        (
            '{"schema_version": 9, "tasks": {"a": {"b": {"ci95": [1, 2], "iqm": 1}}}}',
            "schema_version",
        ),
    ],
)
def test_a_file_that_holds_no_figures_is_wrong_use(cli: Cli, runs: Path, content: str, says: str) -> None:
    Path("expected.json").write_text(content)
    result = cli("report", "runs", "formats=[]", "expected=expected.json")
    assert (result.code, says in result.err) == (2, True), result.err
    assert not (runs / "report").exists()
