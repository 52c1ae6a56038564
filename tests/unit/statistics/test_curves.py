"""Tests sample efficiency: runs on a common grid, and runs that end earlier."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.statistics import iqm, mean, sample_efficiency, stratified_bootstrap


def seeded() -> np.random.Generator:
    return np.random.default_rng(7)


def test_runs_with_steps_of_their_own_meet_on_a_common_grid() -> None:
    line = ([0, 10, 100], [0, 10, 100])
    bent = ([0, 50, 100], [0, 0, 100])
    found = sample_efficiency([line, bent], mean, rng=seeded(), steps=[0, 5, 50, 75, 100])
    assert found.steps.tolist() == [0, 5, 50, 75, 100]
    assert found.estimate.tolist() == [0, 2.5, 25, 62.5, 100]
    assert found.runs.tolist() == [2] * 5


def test_at_each_step_the_band_is_the_interval_of_the_values_there() -> None:
    rng = seeded()
    values = {"a": rng.normal(size=(5, 4)), "b": rng.normal(9, 2, size=(3, 4))}
    curves = {task: [(range(4), run) for run in of] for task, of in values.items()}
    found = sample_efficiency(curves, rng=seeded(), steps=range(4))
    for k in range(4):
        there = stratified_bootstrap({t: of[:, k] for t, of in values.items()}, rng=seeded())
        assert found.estimate[k] == there.estimate
        assert (found.low[k], found.high[k]) == pytest.approx((there.low, there.high))


def test_without_steps_the_grid_is_where_every_run_has_values() -> None:
    found = sample_efficiency([([0, 80], [0, 8]), ([20, 100], [2, 10])], rng=seeded())
    assert (found.steps[0], found.steps[-1], len(found.steps)) == (20, 80, 100)
    assert found.estimate == pytest.approx(found.steps / 10)
    assert set(found.runs) == {2}


def test_a_run_that_ended_earlier_is_not_continued() -> None:
    short, long = ([0, 50], [0, 50]), ([0, 100], [0, 200])
    found = sample_efficiency([short, long], mean, rng=seeded(), steps=[50, 51, 101])
    assert found.estimate[0] == 75
    assert found.estimate[1] == pytest.approx(102)  # only the long run
    assert found.runs.tolist() == [2, 1, 0]
    assert np.isfinite(found.low[0])
    assert np.isnan([*found.low[1:], found.estimate[2]]).all()


def test_where_a_task_has_no_run_there_is_no_estimate() -> None:
    curves = {"a": [([0, 50], [1, 1])] * 2, "b": [([0, 100], [3, 3])] * 2}
    found = sample_efficiency(curves, iqm, rng=seeded(), steps=[50, 60])
    assert found.estimate[0] == 2
    assert np.isnan(found.estimate[1])


def test_curves_depend_on_their_generator_alone() -> None:
    curves = [(range(3), seeded().normal(size=3) + k) for k in range(5)]
    one, same, other = (
        sample_efficiency(curves, rng=np.random.default_rng(seed), resamples=30) for seed in (1, 1, 2)
    )
    assert np.array_equal(one.low, same.low)
    assert not np.array_equal(one.low, other.low)


def test_sample_efficiency_accepts_any_statistic_as_a_function() -> None:
    curves = {"a": [([0], [1.0])], "b": [([0], [5.0])]}
    found = sample_efficiency(curves, lambda scores: max(map(max, scores.values())), rng=seeded())
    assert found.estimate.tolist() == [5]


@pytest.mark.parametrize(
    ("curves", "error", "said"),
    [
        ([], ShapeError, "without runs"),
        ({}, ShapeError, "0 tasks"),
        ({"Pong": []}, ShapeError, "without runs"),
        ({"Pong": [([0, 1], [1])]}, ShapeError, r"run 0 of task 'Pong': .* \(2,\).* \(1,\)"),
        ([([0, 0], [1, 1])], ShapeError, "steps do not rise"),
        ([([0, 1, 2],)], ShapeError, "1 arrays"),
        ([([0, 1], [1, np.nan])], NonFiniteError, "values have NaN"),
        (
            [([0, 1], [1, 1]), ([2, 3], [1, 1])],
            ShapeError,
            "begins at step 2 and another ends at 1",
        ),
    ],
)
def test_sample_efficiency_refuses_malformed_curves_by_name(
    curves: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        sample_efficiency(curves, rng=seeded())


def test_sample_efficiency_refuses_empty_steps_and_a_level_of_1() -> None:
    with pytest.raises(ShapeError, match="steps of shape"):
        sample_efficiency([([0, 1], [0, 1])], rng=seeded(), steps=[])
    with pytest.raises(ConfigError, match="level=1"):
        sample_efficiency([([0, 1], [0, 1])], rng=seeded(), level=1)
