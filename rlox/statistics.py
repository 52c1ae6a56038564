"""Estimators for scores: interquartile mean and percentile-bootstrap intervals.

The conventions are those of Agarwal et al. 2021 (arXiv:2108.13264), with an explicit generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ShapeError

__all__ = ["bootstrap_ci", "iqm"]


def iqm(scores: NDArray[Any]) -> float:
    """Mean of the middle half: a quarter of the values (rounded down) is cut at either end."""
    ordered = np.sort(np.asarray(scores, np.float64).ravel())
    if ordered.size == 0:
        raise ShapeError("iqm of no scores")
    cut = ordered.size // 4
    return float(ordered[cut : ordered.size - cut].mean())


def bootstrap_ci(
    scores: NDArray[Any],
    statistic: Callable[..., Any] = np.mean,
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile-bootstrap interval of `statistic` over `scores` `[n]`."""
    values = np.asarray(scores, np.float64).ravel()
    if values.size == 0:
        raise ShapeError("bootstrap of no scores")
    rng = np.random.default_rng(seed)
    draws = values[rng.integers(0, values.size, (resamples, values.size))]
    estimates = np.array([statistic(draw) for draw in draws])
    low, high = np.quantile(estimates, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
