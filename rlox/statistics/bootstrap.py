"""Percentile-bootstrap intervals that resample runs within their task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError, ShapeError
from rlox.statistics.estimators import Statistic, apply_to_runs, iqm, require_number, vectorize
from rlox.statistics.scores import Array, Scores, Tasks, match_tasks, parse_numbers, parse_scores

__all__ = [
    "Interval",
    "bootstrap_ci",
    "difference",
    "interval_ends",
    "require_bootstrap_arguments",
    "resample_counts",
    "resample_indices",
    "stratified_bootstrap",
]

MAX_INDICES = 1 << 22  # resampled indices in memory at once


@dataclass(frozen=True)
class Interval:
    """An estimate with its interval from `low` to `high`, which are NaN if a task has only one run.

    As text it reads `500.0 [388.7, 500.0]`; a format applies to each number: `f"{interval:.3f}"`.
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
    """Return the percentile-bootstrap interval of `statistic`, resampling runs within each task.

    The statistics of this package are vectorised over resamples. Any other function is called once for each
    resample, which it gets in the form that `scores` has. With fewer than ten runs per task the interval is
    too narrow (docs/statistics.md).
    """
    require_bootstrap_arguments(rng, resamples, level)
    tasks = parse_scores(scores)
    estimate = apply_to_runs(statistic, tasks)
    if not tasks.has_spread:
        return Interval(estimate, math.nan, math.nan)
    return Interval(estimate, *interval_ends(_estimates(tasks, statistic, rng, resamples), level))


def difference(
    x: Scores,
    y: Scores,
    statistic: Statistic = iqm,
    *,
    rng: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Return `statistic` of algorithm `x` minus that of `y`; runs of both are resampled independently.

    The algorithms differ if the interval excludes 0. Whether two separate intervals overlap is a weaker test:
    they often overlap where the difference is clear.
    """
    require_bootstrap_arguments(rng, resamples, level)
    x_tasks, y_tasks = match_tasks(x, y)
    estimate = apply_to_runs(statistic, x_tasks) - apply_to_runs(statistic, y_tasks)
    if not (x_tasks.has_spread and y_tasks.has_spread):
        return Interval(estimate, math.nan, math.nan)
    differences = _estimates(x_tasks, statistic, rng, resamples) - _estimates(
        y_tasks, statistic, rng, resamples
    )
    return Interval(estimate, *interval_ends(differences, level))


def bootstrap_ci(
    scores: NDArray[Any],
    statistic: Callable[..., Any] = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the percentile-bootstrap interval of `statistic` over `scores` `[n]`."""
    values = parse_numbers(scores, "scores", "an array [n]").ravel()
    if values.size == 0:
        raise ShapeError("bootstrap of no scores, expected at least one")
    rng = np.random.default_rng(seed)
    require_bootstrap_arguments(rng, resamples, level)
    # one at a time: all resamples together need `resamples` times the memory of the scores
    estimates = np.array(
        [
            require_number(statistic(values[rng.integers(0, values.size, values.size)]))
            for _ in range(resamples)
        ]
    )
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def require_bootstrap_arguments(rng: object, resamples: int, level: float) -> None:
    """Raise `ConfigError` for an invalid generator, number of resamples or level."""
    if not isinstance(rng, np.random.Generator):
        raise ConfigError(f"rng={rng!r}: expected a numpy.random.Generator, such as np.random.default_rng(0)")
    if isinstance(resamples, bool) or not isinstance(resamples, Integral) or resamples < 1:
        raise ConfigError(f"resamples={resamples!r}: expected a whole number, at least 1")
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise ConfigError(f"level={level}: expected a number between 0 and 1, such as 0.95")


def resample_indices(
    sizes: list[int], rng: np.random.Generator, resamples: int
) -> Iterator[list[NDArray[np.int64]]]:
    """Yield the run indices of resamples, `[chunk, runs]` for each task, in chunks that fit in memory."""
    chunk = max(1, MAX_INDICES // sum(sizes))
    for start in range(0, resamples, chunk):
        n_rows = min(chunk, resamples - start)
        yield [rng.integers(0, size, (n_rows, size)) for size in sizes]


def resample_counts(indices_drawn: NDArray[np.int64]) -> Array:
    """Count how often each resample draws each run: `indices_drawn` `[chunk, runs]` -> `[chunk, runs]`."""
    n_resamples, size = indices_drawn.shape
    flat = (indices_drawn + np.arange(n_resamples)[:, None] * size).ravel()
    return np.bincount(flat, minlength=n_resamples * size).reshape(n_resamples, size).astype(np.float64)


def interval_ends(estimates: Array, level: float) -> tuple[float, float]:
    """Return low and high of the central `level` interval of bootstrap estimates `[resamples]`."""
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _estimates(tasks: Tasks, statistic: Statistic, rng: np.random.Generator, resamples: int) -> Array:
    estimate_all = vectorize(statistic, tasks)
    return np.concatenate(
        [
            estimate_all([values[k] for values, k in zip(tasks.values, indices_drawn, strict=True)])
            for indices_drawn in resample_indices(tasks.sizes, rng, resamples)
        ]
    )
