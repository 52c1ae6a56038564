"""Tests the comparison of later figures with expected ones: they agree, differ, or stay unknown."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlox.errors import ConfigError, NonFiniteError, RloxError
from rlox.statistics import Verdict, compare, iqm
from rlox.statistics.trimmed_means import t_quantile, trimmed_difference

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
FOLDERS = sorted(path.parent.name for path in EXPERIMENTS.glob("*/expected.json"))


def document(experiment: str) -> dict[str, Any]:
    """Reads the experiment's expected.json."""
    text = (EXPERIMENTS / experiment / "expected.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def figure(scores: list[float]) -> dict[str, Any]:
    """Makes a figure of these scores; comparisons ignore the interval of a figure with scores."""
    return {"iqm": iqm(scores), "ci95": [min(scores), max(scores)], "scores": scores}


def nested(depth: int) -> dict[str, Any]:
    """Makes a figure at this depth."""
    found = figure([1.0])
    for _ in range(depth):
        found = {"a": found}
    return found


def by_name(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Verdict]:
    """Returns the verdicts by figure."""
    return {verdict.figure: verdict for verdict in compare(expected, found)}


@pytest.mark.parametrize("experiment", FOLDERS)
def test_every_experiment_agrees_with_itself(experiment: str) -> None:
    verdicts = compare(document(experiment), document(experiment))
    assert len(verdicts) >= 7  # at least the first leg of a comparison
    assert {verdict.label for verdict in verdicts} == {"agrees"}


def test_a_figure_is_named_by_its_place_in_the_document() -> None:
    names = [
        verdict.figure for verdict in compare(document("off_policy_control"), {"value": 0, "ci95": [0, 0]})
    ]
    leg = "Pendulum-v1_SAC"
    assert names[:3] == [f"{leg}/total_steps", f"{leg}/rlox", f"{leg}/sb3"]
    assert "HalfCheetah-v5_SAC/training/difference" in names
    assert "QR_DQN/systems/QR-DQN/training" in by_name(document("one_task_each"), document("one_task_each"))
    assert "Pendulum-v1/behaviour" in by_name(
        document("behavioural_cloning"), document("behavioural_cloning")
    )


def test_only_changed_figures_differ() -> None:
    expected = document("off_policy_control")
    found = copy.deepcopy(expected)
    found["HalfCheetah-v5_SAC"]["rlox"] = figure([90.0, 130.0, 110.0])  # of three runs too
    found["Pendulum-v1_TD3"]["rlox"] = figure([-1200.0 - k for k in range(10)])
    verdicts = by_name(expected, found)
    differing = {name for name, verdict in verdicts.items() if verdict.agrees is False}
    assert differing == {"HalfCheetah-v5_SAC/rlox", "Pendulum-v1_TD3/rlox"}
    apart = verdicts["HalfCheetah-v5_SAC/rlox"].difference
    assert apart is not None
    assert apart.high < 0


def test_runs_of_the_same_thing_with_other_seeds_agree() -> None:
    expected = {"task": figure([491.0, 375.0, 500.0, 500.0, 126.0])}
    found = {"task": figure([500.0, 129.0, 188.0, 480.0, 500.0, 498.0])}
    assert by_name(expected, found)["task"].agrees is True


def test_the_verdict_does_not_depend_on_rounding() -> None:
    expected = {"task": figure([500.0] * 5)}
    nearly = {"task": figure([np.nextafter(500.0, 0)] * 5)}
    below = {"task": figure([499.0] * 5)}
    assert by_name(expected, nearly)["task"].agrees is True
    assert by_name(expected, below)["task"].agrees is False


def test_a_figure_without_scores_is_judged_by_the_two_intervals() -> None:
    def of(estimate: float, low: float, high: float) -> dict[str, Any]:
        return {"gap": {"mean": estimate, "ci95": [low, high]}}

    # by hand: 10 - 0 -+ hypot(3, 4) x 2.5758 / 1.9600
    apart = by_name(of(0, -9, 4), of(10, 7, 19))["gap"].difference
    assert apart is not None
    assert apart.low == pytest.approx(10 - 5 * 2.5758 / 1.9600, abs=1e-3)
    assert apart.high == pytest.approx(10 + math.hypot(9, 9) * 2.5758 / 1.9600, abs=1e-3)
    assert by_name(of(0, -9, 4), of(10, 7, 19))["gap"].label == "differs"
    assert by_name(of(0, -9, 8), of(10, 2, 19))["gap"].label == "agrees"


def test_the_comparison_widens_intervals_of_few_runs() -> None:
    def of(seeds: int, estimate: float) -> dict[str, Any]:
        return {"seeds": seeds, "gap": {"mean": estimate, "ci95": [estimate - 1, estimate + 1]}}

    assert by_name(of(100, 0), of(100, 3))["gap"].label == "differs"
    assert by_name(of(3, 0), of(3, 3))["gap"].label == "agrees"
    assert by_name(of(1, 0), of(100, 3))["gap"].label == "unknown"


def test_figures_that_cannot_be_compared_are_unknown_with_a_reason() -> None:
    expected = {"a": figure([1.0, 2.0, 3.0]), "b": figure([1.0, 2.0]), "d": figure([1.0, 2.0])}
    found = {"a": figure([9.0]), "c": figure([1.0, 2.0]), "d": {"mean": 1.5, "ci95": [1, 2]}}
    verdicts = by_name(expected, found)
    assert {verdict.label for verdict in verdicts.values()} == {"unknown"}
    assert {name: verdict.reason for name, verdict in verdicts.items()} == {
        "a": "too few runs",
        "b": "not in what was found",
        "d": "expected iqm, found mean",
        "c": "not in the expected figures",
    }
    assert verdicts["b"].actual is None
    assert verdicts["c"].expected is None


def test_an_interval_is_not_needed_where_there_are_scores() -> None:
    scores = {"iqm": 2.0, "scores": [1.0, 2.0, 3.0]}
    verdicts = by_name({"a": scores, "b": scores}, {"a": figure([1.5, 2.0]), "b": figure([90.0, 91.0])})
    assert [verdicts[name].label for name in ("a", "b")] == ["agrees", "differs"]
    null = {"b": {"iqm": 9.0, "ci95": [None, None]}}
    assert by_name({"b": scores}, null)["b"].reason == "not both have an interval"


def test_figures_of_runs_with_other_total_steps_get_the_verdict_differs() -> None:
    expected = {"leg": {"total_steps": 100_000, "rlox": figure([1.0, 2.0])}}
    found = {"leg": {"total_steps": 50_000, "rlox": figure([1.0, 2.0])}}
    verdict = by_name(expected, found)["leg/total_steps"]
    assert (verdict.label, verdict.reason) == ("differs", "not the same setting")


def test_a_figure_may_be_rounded_beside_its_scores() -> None:
    scores = {"scores": [500.0, 491.2, 483.0, 500.0, 425.0]}
    for kind, stated in (("iqm", 491.4), ("iqm", 491), ("mean", 480)):
        (verdict,) = compare({"a": {kind: stated, **scores}}, {"a": {kind: stated, **scores}})
        assert verdict.agrees


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({}, ConfigError, "found has no figures"),
        ({"schema_version": 2, "a": figure([1.0])}, ConfigError, "schema_version is 2"),
        ({"a": {"iqm": 1.0, "ci95": [0.0]}}, ConfigError, r"a/ci95 is \[0.0\]"),
        ({"a": {"iqm": 1.0, "ci95": "no"}}, ConfigError, "a/ci95 is 'no'"),
        ({"a": {"iqm": 1.0, "ci95": [0, "1"]}}, ConfigError, "expected two numbers"),
        ({"a": {"iqm": "1", "ci95": [0, 1]}}, ConfigError, "a/iqm is '1'"),
        ({"a": {"scores": [1.0], "ci95": [0, 1]}}, ConfigError, "0 of iqm"),
        ({"a": {"iqm": 1.0, "scores": np.zeros((2, 2))}}, ConfigError, "scores of one task"),
        ({"a": {"iqm": 1.0, "ci95": [1.1, 0.9]}}, ConfigError, "a/ci95 .* the lower end first"),
        (
            {"a": {"iqm": 500.0, "scores": [1.0, 1.0, 1.0]}},
            ConfigError,
            "a/iqm is 500, and that of its scores is 1",
        ),
        (
            {"a": {"mean": 2.2, "scores": [1.0, 2.0, 3.0]}},
            ConfigError,
            "a/mean is 2.2, and that of its scores is 2",
        ),
        ({"total_steps": "many"}, ConfigError, "total_steps is 'many'"),
        ({"seeds": "ten", **figure([1.0])}, ConfigError, "seeds is 'ten'"),
        (nested(5000), ConfigError, "nested too deeply"),
        ({"a": {"iqm": 1, "mean": 1, "ci95": [0, 1]}}, ConfigError, "2 of iqm"),
        ({"a": {"iqm": math.nan, "ci95": [0, 1]}}, NonFiniteError, "a/iqm is nan"),
        ({"a": {"b": [1.0, math.nan]}}, NonFiniteError, "a/b of task 0, run 1: nan"),
    ],
)
def test_comparing_figures_refuses_malformed_documents_by_name(
    wrong: dict[str, Any], error: type[RloxError], said: str
) -> None:
    with pytest.raises(error, match=said):
        compare({"a": figure([1.0, 2.0])}, wrong)
    with pytest.raises(ConfigError, match="level=99"):
        compare(wrong, wrong, level=99)


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 63.657), (2, 9.925), (4, 4.604), (8, 3.355), (18, 2.878), (1000, 2.581)],
)
def test_t_quantile_equals_the_values_of_published_tables(freedom: int, quantile: float) -> None:
    assert t_quantile(0.99, freedom) == pytest.approx(quantile, abs=6e-4)


def test_the_trimmed_difference_is_that_by_hand() -> None:
    # Winsorized: 2 2 3 4 4 and 12 12 13 15 15, squares about their means 4 and 9.2; 3 left of each
    found = trimmed_difference(
        np.array([1.0, 2, 3, 4, 90]), np.array([-7.0, 12, 13, 15, 16]), is_trimmed=True, level=0.99
    )
    assert found.estimate == pytest.approx(3 - 40 / 3)
    reach = 4.6041 * math.sqrt((4 + 9.2) / 4 * (1 / 3 + 1 / 3))
    assert found.high - found.estimate == pytest.approx(reach, rel=1e-4)
    assert found.estimate - found.low == pytest.approx(reach, rel=1e-4)
    untrimmed = trimmed_difference(np.array([1.0, 3]), np.array([1.0, 3]), is_trimmed=False, level=0.99)
    assert untrimmed.high == pytest.approx(9.9248 * math.sqrt(2), rel=1e-5)
