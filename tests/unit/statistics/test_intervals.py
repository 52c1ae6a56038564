"""Tests intervals: what they depend on, which resamples they use, and which inputs they refuse."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np
import pytest

from rlox.errors import ConfigError, RloxError, ShapeError
from rlox.statistics import (
    Interval,
    bootstrap_ci,
    difference,
    holm,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    sample_efficiency,
    stratified_bootstrap,
)

Intervals = Any


def make_generator() -> np.random.Generator:
    return np.random.default_rng(7)


SCORES = np.random.default_rng(1).normal(size=(6, 3))
OTHER_SCORES = SCORES[:4] + 0.3
PAIR_STATISTICS: list[Any] = [difference, probability_of_improvement]


@pytest.mark.parametrize("statistic", [mean, median, iqm, partial(optimality_gap, gamma=0.5)])
def test_all_resamples_at_once_are_those_one_by_one(statistic: Any) -> None:
    at_once = stratified_bootstrap(SCORES, statistic, rng=make_generator(), resamples=300)
    one_by_one = stratified_bootstrap(
        SCORES, lambda scores: statistic(scores), rng=make_generator(), resamples=300
    )
    assert one_by_one.estimate == at_once.estimate
    assert (one_by_one.low, one_by_one.high) == pytest.approx((at_once.low, at_once.high), abs=1e-12)


@pytest.mark.parametrize(
    "scores", [SCORES, SCORES[:, 0], list(SCORES.T), {"a": SCORES[:, 0], "b": SCORES[:4, 1]}]
)
def test_resamples_have_the_form_of_the_scores(scores: Any) -> None:
    given: list[Any] = []

    def statistic(draw: Any) -> float:
        given.append(draw)
        return 0.0

    stratified_bootstrap(scores, statistic, rng=make_generator(), resamples=3)
    assert len(given) == 4  # three resamples and the scores
    for draw in given:
        assert type(draw) is type(scores)
        if isinstance(scores, dict):
            assert {task: of.shape for task, of in draw.items()} == {"a": (6,), "b": (4,)}
        else:
            assert np.shape(draw) == np.shape(scores)


def center_and_average(scores: Any) -> float:
    """Returns a mean over tasks, and overwrites its argument."""
    by_task = scores.values() if isinstance(scores, dict) else scores
    rows = [scores] if isinstance(scores, np.ndarray) else list(by_task)
    means = [float(row.mean()) for row in rows]
    for row in rows:
        row -= row.mean()
    return float(np.mean(means))


@pytest.mark.parametrize(
    "scores", [SCORES, SCORES[:, 0], list(SCORES.T), {"a": SCORES[:, 0], "b": SCORES[:4, 1]}]
)
def test_a_statistic_may_write_to_what_it_is_given(scores: Any) -> None:
    before, form = copy.deepcopy(scores), type(scores)
    if form is dict:
        other = {task: values + 0.3 for task, values in scores.items()}
    else:
        other = [values + 0.3 for values in scores] if form is list else scores + 0.3
    for found, expected in (
        (
            stratified_bootstrap(scores, center_and_average, rng=make_generator(), resamples=50),
            stratified_bootstrap(scores, mean, rng=make_generator(), resamples=50),
        ),
        (
            difference(scores, other, center_and_average, rng=make_generator(), resamples=50),
            difference(scores, other, mean, rng=make_generator(), resamples=50),
        ),
    ):
        assert (found.estimate, found.low, found.high) == pytest.approx(
            (expected.estimate, expected.low, expected.high), abs=1e-12
        )
    np.testing.assert_equal(scores, before)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (np.zeros(2), r"ndarray of shape \[2\]"),
        (None, "NoneType"),
        ("1.5", "str"),
        (np.ma.masked, "MaskedConstant"),
    ],
)
def test_a_statistic_that_returns_no_number_is_refused(said: Any, told: str) -> None:
    for asked in (
        lambda: stratified_bootstrap(SCORES, lambda scores: said, rng=make_generator()),
        lambda: bootstrap_ci(SCORES, lambda scores: said),
        lambda: sample_efficiency([([0, 1], [1.0, 2.0])] * 2, lambda of: said, rng=make_generator()),
    ):
        with pytest.raises(ShapeError, match=f"^statistic returned a {told}.*, expected one number"):
            asked()


@pytest.mark.parametrize("resamples", [2.5, True, "9", 0])
def test_resamples_are_a_whole_number(resamples: Any) -> None:
    for asked in (
        lambda: stratified_bootstrap(SCORES, rng=make_generator(), resamples=resamples),
        lambda: bootstrap_ci(SCORES, resamples=resamples),
    ):
        with pytest.raises(ConfigError, match=f"resamples={resamples!r}: expected a whole number"):
            asked()


def test_runs_are_drawn_within_their_task() -> None:
    scores = {"low": [1.0, 2.0], "high": [100.0, 200.0, 300.0]}

    def statistic(draw: dict[str, Any]) -> float:
        assert set(draw["low"]) <= {1.0, 2.0}
        assert set(draw["high"]) <= {100.0, 200.0, 300.0}
        return float(draw["high"].mean())

    found = stratified_bootstrap(scores, statistic, rng=make_generator(), resamples=400)
    assert (found.low, found.high) == (100, 300)


def test_the_ends_are_the_percentiles_of_the_resamples() -> None:
    drawn: list[float] = []

    def statistic(draw: Any) -> float:
        drawn.append(float(draw.max()))
        return drawn[-1]

    found = stratified_bootstrap(SCORES[:, 0], statistic, rng=make_generator(), resamples=500, level=0.8)
    assert (found.low, found.high) == tuple(np.quantile(drawn[1:], [0.1, 0.9]))


def test_an_interval_depends_on_its_generator_alone() -> None:
    def made(seed: int) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        profile = performance_profile(SCORES, [0, 0.5], rng=rng)
        both = [of(SCORES, OTHER_SCORES, rng=rng) for of in PAIR_STATISTICS]
        return (stratified_bootstrap(SCORES, rng=rng), *both, *profile.low, *profile.high)

    assert made(1) == made(1)
    assert made(1)[0] != made(2)[0]


def test_the_order_of_the_tasks_of_the_second_system_is_of_no_account() -> None:
    x = {"a": SCORES[:, 0], "b": SCORES[:, 1] + 9}
    y = {"a": OTHER_SCORES[:, 0], "b": OTHER_SCORES[:, 1] + 9}
    turned = {"b": y["b"], "a": y["a"]}
    for of in PAIR_STATISTICS:
        assert of(x, y, rng=make_generator()) == of(x, turned, rng=make_generator())


def test_the_difference_is_that_of_the_estimates_and_its_interval_is_wider_than_either() -> None:
    apart = difference(SCORES, OTHER_SCORES, mean, rng=make_generator())
    assert apart.estimate == mean(SCORES) - mean(OTHER_SCORES)
    x, y = (stratified_bootstrap(s, mean, rng=make_generator()) for s in (SCORES, OTHER_SCORES))
    assert apart.high - apart.low > max(x.high - x.low, y.high - y.low)
    # variances of independent systems add up
    assert (apart.high - apart.low) ** 2 == pytest.approx(
        (x.high - x.low) ** 2 + (y.high - y.low) ** 2, rel=0.15
    )


def test_the_band_of_a_profile_is_the_interval_of_the_part_above() -> None:
    profile = performance_profile(SCORES, [-0.5, 0.5], rng=make_generator())
    for k, tau in enumerate(profile.thresholds):
        above = stratified_bootstrap(SCORES, lambda s, at=tau: np.mean(s > at), rng=make_generator())
        assert (profile.low[k], profile.high[k]) == pytest.approx((above.low, above.high))


def test_a_system_that_always_wins_improves_with_certainty() -> None:
    better = probability_of_improvement(SCORES + 99, SCORES, rng=make_generator())
    assert (better.estimate, better.low, better.high) == (1, 1, 1)
    same = probability_of_improvement(np.ones(5), np.ones(4), rng=make_generator())
    assert (same.estimate, same.low, same.high) == (0.5, 0.5, 0.5)


def test_many_resamples_are_not_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlox.statistics.bootstrap.MAX_INDICES", 100)
    sizes: list[int] = []

    def statistic(draw: Any) -> float:
        sizes.append(len(draw))
        return float(np.mean(draw))

    found = stratified_bootstrap(np.arange(30.0), statistic, rng=make_generator(), resamples=301)
    assert len(sizes) == 302
    assert found.low < found.estimate < found.high


def test_one_run_alone_has_an_estimate_and_no_interval() -> None:
    scores = {"a": [1.0, 2.0], "b": [5.0]}
    of_one = [
        stratified_bootstrap(scores, mean, rng=make_generator()),
        *(of(scores, scores, rng=make_generator()) for of in PAIR_STATISTICS),
    ]
    assert [found.estimate for found in of_one] == [3.25, 0, 0.5]
    assert np.isnan([[found.low, found.high] for found in of_one]).all()
    for x, y in ((scores, {"a": [1.0, 2.0], "b": [5.0, 6.0]}), ({"a": [1.0, 2.0]}, {"a": [3.0]})):
        of_either = [of(*pair, rng=make_generator()) for of in PAIR_STATISTICS for pair in ((x, y), (y, x))]
        assert np.isnan([[found.low, found.high] for found in of_either]).all()
    profile = performance_profile(scores, [1.5], rng=make_generator())
    assert profile.fraction == 2 / 3
    assert np.isnan([profile.low, profile.high]).all()


def test_an_interval_reads_as_it_stands_in_a_table() -> None:
    interval = Interval(500.0, 388.74, 500.0)
    assert str(interval) == "500.0 [388.7, 500.0]"
    assert f"{interval:.2f}" == "500.00 [388.74, 500.00]"
    assert str(Interval(500.0, np.nan, np.nan)) == "500.0"
    assert 400 in interval
    assert 388 not in interval


def test_systems_of_different_tasks_are_not_compared() -> None:
    x, y = {"Pong": [1.0], "Boxing": [2.0]}, {"Pong": [1.0], "Breakout": [2.0]}
    for of in PAIR_STATISTICS:
        with pytest.raises(ShapeError, match="only x has 'Boxing', only y has 'Breakout'"):
            of(x, y, rng=make_generator())
        with pytest.raises(ShapeError, match="x has 3 tasks and y 2"):
            of(SCORES, SCORES[:, :2], rng=make_generator())
        with pytest.raises(ShapeError, match="one is a mapping by task and the other is not"):
            of(x, SCORES[:, :2], rng=make_generator())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rng": 0}, "rng=0: expected a numpy.random.Generator"),
        ({"rng": np.random.RandomState(0)}, "expected a numpy.random.Generator"),
        ({"resamples": 0}, "resamples=0"),
        ({"level": 95}, "level=95"),
    ],
)
def test_an_interval_that_cannot_be_made_is_an_error(given: dict[str, Any], said: str) -> None:
    given = {"rng": make_generator(), **given}
    for made in (
        lambda: stratified_bootstrap(SCORES, **given),
        lambda: performance_profile(SCORES, [0], **given),
        *(partial(of, SCORES, OTHER_SCORES, **given) for of in PAIR_STATISTICS),
    ):
        with pytest.raises(ConfigError, match=said):
            made()


@pytest.mark.parametrize("thresholds", [[], 0.5, [[0.5]], [np.nan]])
def test_thresholds_are_finite_numbers_in_a_row(thresholds: Any) -> None:
    with pytest.raises(RloxError, match="thresholds"):
        performance_profile(SCORES, thresholds)


def test_the_holm_correction_equals_p_values_computed_by_hand() -> None:
    # by hand: 4 x .01, 3 x .02, then 2 x .03 = .06 and at least that for .04
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.5]).tolist() == [1, 1]
    assert holm([]).tolist() == []
    with pytest.raises(ShapeError, match="0 to 1"):
        holm([0.5, np.nan])
