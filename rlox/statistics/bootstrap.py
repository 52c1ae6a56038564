"""Percentile-bootstrap intervals: runs are drawn again within their task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError, ShapeError
from rlox.statistics.estimators import Statistic, iqm, number_of, of_draws, of_runs
from rlox.statistics.scores import Array, Scores, Tasks, numbers_of, pair_of, tasks_of

__all__ = [
    "Interval",
    "bootstrap_ci",
    "check",
    "counts",
    "difference",
    "ends",
    "indices",
    "stratified_bootstrap",
]

AT_ONCE = 1 << 22  # drawn runs that are in memory together


@dataclass(frozen=True)
class Interval:
    """An estimate between the ends of its interval, which are NaN where a task has one run alone.

    As text `500.0 [388.7, 500.0]`; a format is that of each number: `f"{interval:.3f}"`.
    """

    estimate: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        estimate, low, high = (
            format(number, spec or ".1f") for number in (self.estimate, self.low, self.high)
        )
        return f"{estimate} [{low}, {high}]" if math.isfinite(self.low) else estimate

    def __str__(self) -> str:
        return format(self, "")

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def stratified_bootstrap(
    scores: Scores,
    statistic: Statistic = iqm,
    *,
    rng: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Percentile-bootstrap interval of `statistic`: runs are drawn again within each task.

    The functions of this package take all resamples at once; any other is called with each, in the form that
    `scores` came in. With fewer than ten runs a task the interval is too narrow: docs/statistics.md.
    """
    check(rng, resamples, level)
    tasks = tasks_of(scores)
    estimate = of_runs(statistic, tasks)
    if not tasks.has_spread:
        return Interval(estimate, math.nan, math.nan)
    return Interval(estimate, *ends(_estimates(tasks, statistic, rng, resamples), level))


def difference(
    x: Scores,
    y: Scores,
    statistic: Statistic = iqm,
    *,
    rng: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """By how much `statistic` of the system `x` is above that of `y`; their runs are drawn independently.

    An interval without 0 says that they differ. Whether two intervals overlap says less: they do overlap in
    many cases where the difference is clear.
    """
    check(rng, resamples, level)
    one, other = pair_of(x, y)
    estimate = of_runs(statistic, one) - of_runs(statistic, other)
    if not (one.has_spread and other.has_spread):
        return Interval(estimate, math.nan, math.nan)
    apart = _estimates(one, statistic, rng, resamples) - _estimates(
        other, statistic, rng, resamples
    )
    return Interval(estimate, *ends(apart, level))


def bootstrap_ci(
    scores: NDArray[Any],
    statistic: Callable[..., Any] = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile-bootstrap interval of `statistic` over `scores` `[n]`."""
    values = numbers_of(scores, "scores", "an array [n]").ravel()
    if values.size == 0:
        raise ShapeError("bootstrap of no scores")
    rng = np.random.default_rng(seed)
    check(rng, resamples, level)
    # one after the other: all together are resamples times the memory of the scores
    estimates = np.array(
        [
            number_of(statistic(values[rng.integers(0, values.size, values.size)]))
            for _ in range(resamples)
        ]
    )
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def check(rng: object, resamples: int, level: float) -> None:
    """`ConfigError` for what no interval can be made with."""
    if not isinstance(rng, np.random.Generator):
        raise ConfigError(
            f"rng={rng!r}: expected a numpy.random.Generator, such as np.random.default_rng(0)"
        )
    if isinstance(resamples, bool) or not isinstance(resamples, Integral) or resamples < 1:
        raise ConfigError(f"resamples={resamples!r}: expected a whole number, at least 1")
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise ConfigError(f"level={level}: expected a number between 0 and 1, such as 0.95")


def indices(
    sizes: list[int], rng: np.random.Generator, resamples: int
) -> Iterator[list[NDArray[np.int64]]]:
    """Which runs the resamples have, of each task `[some, runs]`: as many at once as memory bears."""
    some = max(1, AT_ONCE // sum(sizes))
    for begin in range(0, resamples, some):
        rows = min(some, resamples - begin)
        yield [rng.integers(0, size, (rows, size)) for size in sizes]


def counts(drawn: NDArray[np.int64]) -> Array:
    """How often each resample has each run, `[some, runs]` of `drawn` `[some, runs]`."""
    some, size = drawn.shape
    flat = (drawn + np.arange(some)[:, None] * size).ravel()
    return np.bincount(flat, minlength=some * size).reshape(some, size).astype(np.float64)


def ends(estimates: Array, level: float) -> tuple[float, float]:
    """The middle `level` of bootstrap estimates `[resamples]`."""
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _estimates(
    tasks: Tasks, statistic: Statistic, rng: np.random.Generator, resamples: int
) -> Array:
    all_at_once = of_draws(statistic, tasks)
    return np.concatenate(
        [
            all_at_once([values[k] for values, k in zip(tasks.values, drawn, strict=True)])
            for drawn in indices(tasks.sizes, rng, resamples)
        ]
    )
