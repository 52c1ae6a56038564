"""Performance profiles: the fraction of all runs that scores above each threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rlox.errors import NonFiniteError, ShapeError
from rlox.statistics.bootstrap import require_bootstrap_arguments, resample_counts, resample_indices
from rlox.statistics.scores import Array, Scores, parse_numbers, parse_scores

__all__ = ["Profile", "performance_profile"]


@dataclass(frozen=True, eq=False)
class Profile:
    """Fraction of runs above each threshold, with its interval from `low` to `high`.

    Each array has one number per threshold. `low` and `high` are NaN if no `rng` was given or a task has only
    one run.
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
    """Return P(score > threshold) over the runs of all tasks; `rng` adds an interval at each threshold.

    This is the run-score distribution of Agarwal et al.: tasks are pooled, so those with more runs weigh
    more.
    """
    tasks, threshold_array = parse_scores(scores), parse_numbers(thresholds, "thresholds", "[thresholds]")
    if threshold_array.ndim != 1 or threshold_array.size == 0:
        raise ShapeError(f"thresholds of shape {threshold_array.shape}: expected [n] with n >= 1")
    if not np.isfinite(threshold_array).all():
        raise NonFiniteError("thresholds: expected finite numbers")
    is_above = [(values[:, None] > threshold_array).astype(np.float64) for values in tasks.values]
    n_runs = sum(tasks.sizes)
    fraction = np.sum([task_values.sum(axis=0) for task_values in is_above], axis=0) / n_runs
    nan_bounds = np.full(threshold_array.size, np.nan)
    if rng is None:
        return Profile(threshold_array, fraction, nan_bounds, nan_bounds)
    require_bootstrap_arguments(rng, resamples, level)
    if not tasks.has_spread:
        return Profile(threshold_array, fraction, nan_bounds, nan_bounds)
    # counts times 0 or 1 are exact in floats, so any order of summation gives the same bits
    draws = [
        np.sum(
            [
                resample_counts(k) @ task_values
                for k, task_values in zip(indices_drawn, is_above, strict=True)
            ],
            axis=0,
        )
        for indices_drawn in resample_indices(tasks.sizes, rng, resamples)
    ]
    bounds = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.quantile(np.concatenate(draws) / n_runs, bounds, axis=0)
    return Profile(threshold_array, fraction, low, high)
