"""Tests that estimates equal those of rliable 1.2.0 on two small matrices, and what is not a score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from rlox import statistics
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.statistics import (
    bootstrap_ci,
    holm,
    iqm,
    mean,
    median,
    normalize,
    optimality_gap,
    performance_profile,
    sample_efficiency,
)

# runs x tasks; rliable 1.2.0 computed the expected results
X = np.array([[0.1, 0.5, 0.9], [0.2, 0.6, 1.1], [0.3, 0.4, 1.0], [0.0, 0.7, 1.3], [0.25, 0.55, 0.95]])
Y = np.array([[0.15, 0.5, 0.8], [0.05, 0.65, 1.0], [0.3, 0.35, 0.9], [0.1, 0.45, 1.05]])
TAUS = [0, 0.25, 0.5, 0.75, 1, 1.25]


@pytest.mark.parametrize(
    ("estimate", "of_x", "of_y"),
    [
        (mean, 0.59, 0.525),
        (median, 0.55, 0.4875),
        (iqm, 0.5722222222, 0.5083333333),
        (optimality_gap, 0.4366666667, 0.4791666667),
    ],
)
def test_mean_median_iqm_and_optimality_gap_equal_those_of_rliable(
    estimate: Any, of_x: float, of_y: float
) -> None:
    assert estimate(X) == pytest.approx(of_x, abs=1e-10)
    assert estimate(Y) == pytest.approx(of_y, abs=1e-10)


def test_the_performance_profile_equals_that_of_rliable() -> None:
    profile = statistics.performance_profile(X, TAUS)
    expected = [0.9333, 0.7333, 0.5333, 0.3333, 0.1333, 0.0667]
    assert profile.fraction == pytest.approx(expected, abs=5e-5)
    assert np.isnan([profile.low, profile.high]).all()  # no generator, no bands


def test_the_probability_of_improvement_is_that_of_rliable() -> None:
    assert statistics.improvement(X, Y) == pytest.approx(0.6416666667, abs=1e-10)
    found = statistics.probability_of_improvement(X, Y, rng=np.random.default_rng(0))
    assert found.estimate == statistics.improvement(X, Y)


def test_the_interval_of_the_iqm_is_that_of_rliable() -> None:
    found = statistics.stratified_bootstrap(X, rng=np.random.default_rng(0), resamples=5000)
    assert (found.low, found.high) == pytest.approx((0.5167, 0.6278), abs=0.006)


@pytest.mark.parametrize("estimate", [mean, median, iqm, partial(optimality_gap, gamma=0.8)])
def test_estimators_accept_scores_as_mappings_lists_and_arrays(estimate: Any) -> None:
    by_task = {"a": X[:, 0].tolist(), "b": X[:, 1], "c": X[:, 2]}
    assert estimate(by_task) == estimate(X) == estimate(list(X.T))
    assert estimate(X[:, 0].tolist()) == estimate(X[:, 0]) == estimate({"a": X[:, 0]})


def test_tasks_may_have_unequal_numbers_of_runs() -> None:
    scores = {"a": [0.0, 1.0], "b": [2.0, 3.0, 4.0, 5.0, 11.0], "c": [6.0]}
    assert mean(scores) == pytest.approx((0.5 + 5 + 6) / 3)
    assert median(scores) == 5
    assert iqm(scores) == (2 + 3 + 4 + 5) / 4  # of 8 pooled scores, 2 are cut at each end
    assert optimality_gap(scores, gamma=4) == pytest.approx(4 - (0 + 1 + 2 + 3 + 4 * 4) / 8)


@pytest.mark.parametrize(
    ("scores", "error", "said"),
    [
        ([], ShapeError, "no scores"),
        ({}, ShapeError, "no scores"),
        (np.empty((0, 3)), ShapeError, "no scores of task 0"),
        ({"Pong": [1.0], "Boxing": []}, ShapeError, "no scores of task 'Boxing'"),
        ({"Pong": [1.0, 2.0, np.nan]}, NonFiniteError, "task 'Pong', run 2: nan"),
        (np.array([[1.0, np.inf]]), NonFiniteError, "task 1, run 0: inf"),
        ([[1.0, 2.0], [3.0, 4.0]], ShapeError, "runs of tasks or tasks of runs"),
        (np.zeros((2, 3, 4)), ShapeError, r"shape \(2, 3, 4\)"),
        (3.0, ShapeError, r"shape \(\)"),
        ("500", ShapeError, "shape|numbers"),
        (["high", "low"], ShapeError, "not numbers"),
        ({"Pong": np.zeros((2, 2))}, ShapeError, r"'Pong' have shape \(2, 2\)"),
    ],
)
def test_iqm_refuses_malformed_and_nonfinite_scores_by_name(
    scores: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        iqm(scores)


def test_the_optimality_gap_refuses_a_gamma_of_nan() -> None:
    with pytest.raises(ConfigError, match="gamma=nan"):
        optimality_gap(X, gamma=np.nan)


def test_normalizing_puts_the_ends_at_0_and_1_in_the_form_given() -> None:
    assert normalize(np.array([-20.7, 14.6]), -20.7, 14.6).tolist() == [0, 1]
    columns = normalize(np.array([[1.0, 10.0], [3.0, 30.0]]), [1, 10], [3, 20])
    assert columns.tolist() == [[0, 0], [1, 2]]
    named = normalize({"b": [5.0], "a": [1.0, 2.0]}, {"a": 0, "b": 0}, {"a": 4, "b": 5})
    assert {task: of.tolist() for task, of in named.items()} == {"b": [1], "a": [0.25, 0.5]}


@pytest.mark.parametrize(
    ("low", "high", "error", "said"),
    [
        (1, 1, ConfigError, "both 1.0"),
        ({"a": 0}, 1, ConfigError, "low has no number for task 'b'"),
        (0, [1, 2, 3], ShapeError, r"high of shape \(3,\).* 2 tasks"),
        (np.nan, 1, NonFiniteError, "low=nan"),
    ],
)
def test_normalize_refuses_invalid_low_and_high_scores_by_name(
    low: Any, high: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        normalize({"a": [1.0], "b": [2.0]}, low, high)


MASKED_SCORES = np.ma.masked_array([0.25, 0.5, 0.75], [False, False, True])
NUMBER_CALLS: dict[str, Callable[[Any], Any]] = {
    "scores": iqm,
    "scores of 'a'": lambda given: mean({"a": given}),
    r"scores\[0\]": lambda given: mean([np.asanyarray(given)]),
    "thresholds": lambda given: performance_profile([1.0, 2.0], given),
    "p_values": holm,
    "low": lambda given: normalize(np.ones((2, 3)), given, 2.0),
    "the scores": lambda given: bootstrap_ci(given, resamples=2),
    "run 0 of task": lambda given: sample_efficiency(
        [([1, 2, 3], given)], rng=np.random.default_rng(0), resamples=2
    ),
}


@pytest.mark.parametrize("name", NUMBER_CALLS)
def test_statistics_refuse_an_array_of_which_some_is_masked(name: str) -> None:
    told = f"{name.removeprefix('the ')}.*: some of it is masked.* leave it out"
    with pytest.raises(ShapeError, match=told):
        NUMBER_CALLS[name](MASKED_SCORES)
    assert np.isfinite(iqm(MASKED_SCORES.compressed()))


@pytest.mark.parametrize("given", [["1"], np.array(["1", "2"]), [b"1"], [1.0, np.ma.masked]])
def test_text_and_masked_entries_are_no_scores(given: Any) -> None:
    with pytest.raises(ShapeError, match=r"^scores: .* (is not numbers|masked)"):
        iqm(given)
