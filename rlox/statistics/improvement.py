"""Whether one system is better than another, and how many such questions at once may be believed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rlox.errors import ShapeError
from rlox.statistics.bootstrap import Interval, check, counts, ends, indices
from rlox.statistics.scores import Array, Scores, numbers_of, pair_of

__all__ = ["holm", "improvement", "probability_of_improvement"]


def improvement(x: Scores, y: Scores) -> float:
    """The number of `probability_of_improvement` alone."""
    one, other = pair_of(x, y)
    return float(
        np.mean([_wins(a, b).mean() for a, b in zip(one.values, other.values, strict=True)])
    )


def probability_of_improvement(
    x: Scores,
    y: Scores,
    *,
    rng: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """How likely a run of `x` scores above a run of `y` on a task, ties a half: the mean over tasks.

    Mann and Whitney's U over the number of pairs. An interval without 0.5 says that one is better; it says
    nothing about by how much.
    """
    check(rng, resamples, level)
    one, other = pair_of(x, y)
    estimate = improvement(x, y)
    if not (one.has_spread and other.has_spread):
        return Interval(estimate, math.nan, math.nan)
    wins = [_wins(a, b) for a, b in zip(one.values, other.values, strict=True)]
    some = []
    for drawn in indices(one.sizes + other.sizes, rng, resamples):
        of_x, of_y = drawn[: len(wins)], drawn[len(wins) :]
        # halves times whole numbers: exact, in whatever order they are summed
        parts = [
            ((counts(a) @ won) * counts(b)).sum(axis=1) / won.size
            for a, b, won in zip(of_x, of_y, wins, strict=True)
        ]
        some.append(np.mean(parts, axis=0))
    return Interval(estimate, *ends(np.concatenate(some), level))


def holm(p_values: ArrayLike) -> Array:
    """Holm's p-values `[n]` of `n` tests: those below 0.05 hold together with 5% chance of any error.

    S. Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 65-70.
    """
    given = numbers_of(p_values, "p_values", "[n]")
    if given.ndim != 1:
        raise ShapeError(f"p_values of shape {given.shape}: expected [n]")
    if not ((given >= 0) & (given <= 1)).all():
        raise ShapeError(f"p_values={given.tolist()}: expected numbers from 0 to 1")
    order = np.argsort(given, kind="stable")
    scaled = given[order] * np.arange(given.size, 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted


def _wins(x: Array, y: Array) -> Array:
    """1 where a run of `x` is above a run of `y`, a half where they are equal: `[x, y]`."""
    return (np.sign(x[:, None] - y) + 1) / 2
