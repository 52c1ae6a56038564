"""Performance profiles: which part of all runs scores above each threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlox.errors import NonFiniteError, ShapeError
from rlox.statistics.bootstrap import check, counts, indices
from rlox.statistics.scores import Array, Scores, numbers_of, tasks_of

__all__ = ["Profile", "performance_profile"]


@dataclass(frozen=True, eq=False)
class Profile:
    """Part of the runs above each threshold, with the ends of its interval, all `[thresholds]`.

    The ends are NaN without a generator and where a task has one run alone.
    """

    thresholds: Array
    fraction: Array
    low: Array
    high: Array


def performance_profile(
    scores: Scores,
    thresholds: ArrayLike,
    *,
    rng: np.random.Generator | None = None,
    resamples: int = 2000,
    level: float = 0.95,
) -> Profile:
    """P(score > threshold) over the runs of all tasks, with pointwise bands if `rng` is given.

    The run-score distribution of Agarwal et al.: tasks are pooled, so those with more runs weigh more.
    """
    tasks, at = tasks_of(scores), numbers_of(thresholds, "thresholds", "[thresholds]")
    if at.ndim != 1 or at.size == 0:
        raise ShapeError(f"thresholds of shape {at.shape}: expected at least one, [thresholds]")
    if not np.isfinite(at).all():
        raise NonFiniteError("thresholds: expected finite numbers")
    above = [(values[:, None] > at).astype(np.float64) for values in tasks.values]
    runs = sum(tasks.sizes)
    fraction = np.sum([of.sum(axis=0) for of in above], axis=0) / runs
    unknown = np.full(at.size, np.nan)
    if rng is None:
        return Profile(at, fraction, unknown, unknown)
    check(rng, resamples, level)
    if not tasks.has_spread:
        return Profile(at, fraction, unknown, unknown)
    # whole numbers times 0 and 1: exact, in whatever order they are summed
    draws = [
        np.sum([counts(k) @ of for k, of in zip(drawn, above, strict=True)], axis=0)
        for drawn in indices(tasks.sizes, rng, resamples)
    ]
    bounds = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(np.concatenate(draws) / runs, bounds, axis=0)
    return Profile(at, fraction, low, high)
