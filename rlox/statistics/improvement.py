"""Probability of improvement between two algorithms, and Holm's correction for several tests."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rlox.errors import ShapeError
from rlox.statistics.bootstrap import (
    Interval,
    interval_ends,
    require_bootstrap_arguments,
    resample_counts,
    resample_indices,
)
from rlox.statistics.scores import Array, Scores, match_tasks, parse_numbers

__all__ = ["holm", "improvement", "probability_of_improvement"]


def improvement(x: Scores, y: Scores) -> float:
    """Return the estimate of `probability_of_improvement` without its interval."""
    x_tasks, y_tasks = match_tasks(x, y)
    return float(
        np.mean([_win_matrix(a, b).mean() for a, b in zip(x_tasks.values, y_tasks.values, strict=True)])
    )


def probability_of_improvement(
    x: Scores,
    y: Scores,
    *,
    rng: np.random.Generator,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Return the probability that a run of `x` scores above a run of `y`, averaged over tasks.

    The estimate is the Mann-Whitney U divided by the number of pairs; a tie counts one half. If the interval
    excludes 0.5, one algorithm is better; the probability does not tell by how much.
    """
    require_bootstrap_arguments(rng, resamples, level)
    x_tasks, y_tasks = match_tasks(x, y)
    estimate = improvement(x, y)
    if not (x_tasks.has_spread and y_tasks.has_spread):
        return Interval(estimate, math.nan, math.nan)
    wins = [_win_matrix(a, b) for a, b in zip(x_tasks.values, y_tasks.values, strict=True)]
    chunks = []
    for indices_drawn in resample_indices(x_tasks.sizes + y_tasks.sizes, rng, resamples):
        x_indices, y_indices = indices_drawn[: len(wins)], indices_drawn[len(wins) :]
        # all products are multiples of 1/2 and exact in floats, so any order of summation gives the same bits
        task_means = [
            ((resample_counts(a) @ win_matrix) * resample_counts(b)).sum(axis=1) / win_matrix.size
            for a, b, win_matrix in zip(x_indices, y_indices, wins, strict=True)
        ]
        chunks.append(np.mean(task_means, axis=0))
    return Interval(estimate, *interval_ends(np.concatenate(chunks), level))


def holm(p_values: ArrayLike) -> Array:
    """Return Holm's adjusted p-values `[n]`.

    If you reject the hypotheses whose value is below 0.05, the chance of one or more false rejections is at
    most 5%.

    S. Holm (1979), A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6, 65-70.
    """
    p = parse_numbers(p_values, "p_values", "[n]")
    if p.ndim != 1:
        raise ShapeError(f"p_values of shape {p.shape}: expected [n]")
    if not ((p >= 0) & (p <= 1)).all():
        raise ShapeError(f"p_values={p.tolist()}: expected numbers from 0 to 1")
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted


def _win_matrix(x: Array, y: Array) -> Array:
    """Return `[runs of x, runs of y]`: 1 where the run of `x` is above that of `y`, 1/2 if equal, else 0."""
    return (np.sign(x[:, None] - y) + 1) / 2
