"""Differences of trimmed means over a few runs, by Student's t.

Bootstrap intervals of three or five runs are far too narrow. An interval by Student's t contains the true
difference as often as its level says, with any number of runs. It is used where an interval decides whether
repeated experiments agree.
"""

from __future__ import annotations

import math

import numpy as np

from rlox.statistics.bootstrap import Interval
from rlox.statistics.scores import Array

__all__ = ["t_quantile", "trimmed_difference"]

HALVINGS = 60  # bisections of the interval [0, pi / 2]: exact to the last bit
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)


def trimmed_difference(x: Array, y: Array, is_trimmed: bool, level: float) -> Interval:
    """Return the mean of `x` `[runs]` minus that of `y` with its t interval.

    With `is_trimmed`, both are means of the middle half. The interval is Yuen and Dixon's trimmed t (1973,
    Biometrika 60, 369-374) with a pooled variance, because both are assumed to be runs of the same algorithm.
    The interval is NaN if trimming leaves fewer than two runs of either.
    """
    x_stats, y_stats = _trimmed_statistics(x, is_trimmed), _trimmed_statistics(y, is_trimmed)
    difference, degrees_of_freedom = x_stats[0] - y_stats[0], x_stats[2] + y_stats[2] - 2
    if min(x_stats[2], y_stats[2]) < 2:
        return Interval(difference, math.nan, math.nan)
    error = math.sqrt((x_stats[1] + y_stats[1]) / degrees_of_freedom * (1 / x_stats[2] + 1 / y_stats[2]))
    half_width = t_quantile(level, degrees_of_freedom) * error
    return Interval(difference, difference - half_width, difference + half_width)


def t_quantile(level: float, degrees_of_freedom: int) -> float:
    """Return the two-sided quantile t of Student's distribution: P(|T| <= t) = `level`."""
    # substituting t = sqrt(dof) tan(angle), the density is proportional to cos(angle) ** (dof - 1)
    total = math.sqrt(math.pi) / 2
    total *= math.exp(math.lgamma(degrees_of_freedom / 2) - math.lgamma((degrees_of_freedom + 1) / 2))
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        angle = (low + high) / 2
        nodes = angle * (NODES + 1) / 2
        mass = float(WEIGHTS @ np.cos(nodes) ** (degrees_of_freedom - 1)) * angle / 2
        low, high = (angle, high) if mass < level * total else (low, angle)
    return math.sqrt(degrees_of_freedom) * math.tan(low)


def _trimmed_statistics(values: Array, is_trimmed: bool) -> tuple[float, float, int]:
    """Return the trimmed mean, the sum of squares of the Winsorized values, and the number of values left."""
    ordered = np.sort(values)
    n_cut = ordered.size // 4 if is_trimmed else 0
    trimmed = ordered[n_cut : ordered.size - n_cut]
    winsorized = np.clip(ordered, trimmed[0], trimmed[-1])
    return float(trimmed.mean()), float(((winsorized - winsorized.mean()) ** 2).sum()), trimmed.size
