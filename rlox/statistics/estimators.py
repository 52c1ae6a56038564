"""One number for the scores of a system; each also for many resamples of them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rlox.errors import ConfigError, ShapeError
from rlox.masked import is_masked
from rlox.statistics.scores import Array, Scores, Tasks, tasks_of

__all__ = [
    "Draws",
    "Statistic",
    "iqm",
    "mean",
    "median",
    "number_of",
    "of_draws",
    "of_runs",
    "optimality_gap",
]

Draws: TypeAlias = Sequence[Array]  # of each task [resamples, runs]
Statistic: TypeAlias = Callable[..., Any]  # of scores in any form, to a number


def mean(scores: Scores) -> float:
    """Mean over tasks of the means over runs."""
    return _one(_mean, scores)


def median(scores: Scores) -> float:
    """Median over tasks of the means over runs: Agarwal et al.'s, who warn of its noise."""
    return _one(_median, scores)


def iqm(scores: Scores) -> float:
    """Mean of the middle half of all scores: a quarter of them (rounded down) is cut at either end.

    Tasks are pooled, so those with more runs weigh more.
    """
    return _one(_iqm, scores)


def optimality_gap(scores: Scores, gamma: float = 1.0) -> float:
    """How far scores are below `gamma` on average, those above it counted as `gamma`; tasks are pooled."""
    return _one(_gap, scores, gamma=gamma)


def of_draws(statistic: Statistic, tasks: Tasks) -> Callable[[Draws], Array]:
    """`statistic` of many resamples of `tasks`: all at once for those above, one by one for others."""
    plain, given = statistic, {}
    if isinstance(statistic, partial) and not statistic.args:
        plain, given = statistic.func, statistic.keywords
    for known, all_at_once in TOGETHER:
        if plain is known:
            return partial(all_at_once, **given)
    return lambda draws: np.array(
        [number_of(statistic(tasks.form(draw))) for draw in zip(*draws, strict=True)]
    )


def of_runs(statistic: Statistic, tasks: Tasks) -> float:
    """`statistic` of the runs themselves, of which it gets a copy: it may write to what it is given."""
    return number_of(statistic(tasks.form([values.copy() for values in tasks.values])))


def number_of(said: Any) -> float:
    """What a statistic of the user's returns; `ShapeError` for what is not one number."""
    if not isinstance(said, str | bytes) and not is_masked(said):
        with suppress(TypeError, ValueError):
            return float(said)
    shape = f" of shape {list(said.shape)}" if isinstance(said, np.ndarray) else ""
    raise ShapeError(f"statistic returned a {type(said).__name__}{shape}, expected one number")


def _one(all_at_once: Callable[..., Array], scores: Scores, **given: Any) -> float:
    return float(all_at_once([values[None] for values in tasks_of(scores).values], **given)[0])


def _means(draws: Draws) -> Array:
    return np.stack([draw.mean(axis=1) for draw in draws], axis=1)


def _mean(draws: Draws) -> Array:
    found: Array = _means(draws).mean(axis=1)
    return found


def _median(draws: Draws) -> Array:
    found: Array = np.median(_means(draws), axis=1)
    return found


def _iqm(draws: Draws) -> Array:
    ordered = np.sort(_pooled(draws), axis=1)
    cut = ordered.shape[1] // 4
    found: Array = ordered[:, cut : ordered.shape[1] - cut].mean(axis=1)
    return found


def _gap(draws: Draws, gamma: float = 1.0) -> Array:
    if not np.isfinite(gamma):
        raise ConfigError(f"gamma={gamma}: expected a finite number")
    found: Array = gamma - np.minimum(_pooled(draws), gamma).mean(axis=1)
    return found


def _pooled(draws: Draws) -> Array:
    return draws[0] if len(draws) == 1 else np.concatenate(draws, axis=1)


TOGETHER = ((mean, _mean), (median, _median), (iqm, _iqm), (optimality_gap, _gap))
