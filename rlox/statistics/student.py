"""Differences of trimmed means of a few runs, by Student's t.

Resampling three or five runs gives intervals that are far too narrow; where a verdict hangs on one, as it
does when a campaign is repeated, t is right at any number of runs.
"""

from __future__ import annotations

import math

import numpy as np

from rlox.statistics.bootstrap import Interval
from rlox.statistics.scores import Array

__all__ = ["t_quantile", "trimmed_difference"]

HALVINGS = 60  # of a quarter turn: to the last bit
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)


def trimmed_difference(x: Array, y: Array, quarter: bool, level: float) -> Interval:
    """Mean of `x` `[runs]` minus that of `y`, each of its middle half if `quarter`, with the interval of t.

    Yuen and Dixon's trimmed t (1973, Biometrika 60, 369-374), with one variance for both: they are thought to
    be runs of the same thing. The ends are NaN where less than two runs of either are left.
    """
    of_x, of_y = _trimmed(x, quarter), _trimmed(y, quarter)
    apart, freedom = of_x[0] - of_y[0], of_x[2] + of_y[2] - 2
    if min(of_x[2], of_y[2]) < 2:
        return Interval(apart, math.nan, math.nan)
    error = math.sqrt((of_x[1] + of_y[1]) / freedom * (1 / of_x[2] + 1 / of_y[2]))
    reach = t_quantile(level, freedom) * error
    return Interval(apart, apart - reach, apart + reach)


def t_quantile(level: float, freedom: int) -> float:
    """The t that Student's distribution stays within, on both sides, with probability `level`."""
    # with t = sqrt(freedom) tan(angle) the density is cos(angle) ** (freedom - 1), up to a factor
    whole = math.sqrt(math.pi) / 2
    whole *= math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2))
    low, high = 0.0, math.pi / 2
    for _ in range(HALVINGS):
        angle = (low + high) / 2
        at = angle * (NODES + 1) / 2
        within = float(WEIGHTS @ np.cos(at) ** (freedom - 1)) * angle / 2
        low, high = (angle, high) if within < level * whole else (low, angle)
    return math.sqrt(freedom) * math.tan(low)


def _trimmed(values: Array, quarter: bool) -> tuple[float, float, int]:
    """Trimmed mean, sum of squares of the Winsorized values, how many values are left."""
    ordered = np.sort(values)
    cut = ordered.size // 4 if quarter else 0
    kept = ordered[cut : ordered.size - cut]
    drawn_in = np.clip(ordered, kept[0], kept[-1])
    return float(kept.mean()), float(((drawn_in - drawn_in.mean()) ** 2).sum()), kept.size
