"""Point estimates for the scores of an algorithm, also vectorised over many resamples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rlox.errors import ConfigError, ShapeError
from rlox.masked_arrays import is_masked
from rlox.statistics.scores import Array, Scores, Tasks, parse_scores

__all__ = [
    "Resamples",
    "Statistic",
    "apply_to_runs",
    "iqm",
    "mean",
    "median",
    "optimality_gap",
    "require_number",
    "vectorize",
]

Resamples: TypeAlias = Sequence[Array]  # [resamples, runs] for each task
Statistic: TypeAlias = Callable[..., Any]  # from scores in any form to a number


def mean(scores: Scores) -> float:
    """Return the mean over tasks of the means over runs."""
    return _single_estimate(_mean, scores)


def median(scores: Scores) -> float:
    """Return the median over tasks of the means over runs; Agarwal et al. warn of its noise."""
    return _single_estimate(_median, scores)


def iqm(scores: Scores) -> float:
    """Return the interquartile mean: a quarter of all scores (rounded down) is cut at either end.

    Tasks are pooled, so those with more runs weigh more.
    """
    return _single_estimate(_iqm, scores)


def optimality_gap(scores: Scores, gamma: float = 1.0) -> float:
    """Return the mean gap below `gamma`, with higher scores counted as `gamma`; tasks are pooled."""
    return _single_estimate(_optimality_gap, scores, gamma=gamma)


def vectorize(statistic: Statistic, tasks: Tasks) -> Callable[[Resamples], Array]:
    """Return `statistic` as a function of many resamples: vectorised for those of this file, else a loop."""
    function, keywords = statistic, {}
    if isinstance(statistic, partial) and not statistic.args:
        function, keywords = statistic.func, statistic.keywords
    for vectorizable, vectorized in VECTORIZED:
        if function is vectorizable:
            return partial(vectorized, **keywords)
    return lambda draws: np.array(
        [require_number(statistic(tasks.to_input_form(draw))) for draw in zip(*draws, strict=True)]
    )


def apply_to_runs(statistic: Statistic, tasks: Tasks) -> float:
    """Apply `statistic` to a copy of the runs, because it may write to its argument."""
    return require_number(statistic(tasks.to_input_form([values.copy() for values in tasks.values])))


def require_number(result: Any) -> float:
    """Convert the result of a user's statistic to a float; `ShapeError` unless it is one number."""
    if not isinstance(result, str | bytes) and not is_masked(result):
        with suppress(TypeError, ValueError):
            return float(result)
    shape = f" of shape {list(result.shape)}" if isinstance(result, np.ndarray) else ""
    raise ShapeError(f"statistic returned a {type(result).__name__}{shape}, expected one number")


def _single_estimate(vectorized: Callable[..., Array], scores: Scores, **keywords: Any) -> float:
    return float(vectorized([values[None] for values in parse_scores(scores).values], **keywords)[0])


def _means(draws: Resamples) -> Array:
    return np.stack([draw.mean(axis=1) for draw in draws], axis=1)


def _mean(draws: Resamples) -> Array:
    values: Array = _means(draws).mean(axis=1)
    return values


def _median(draws: Resamples) -> Array:
    values: Array = np.median(_means(draws), axis=1)
    return values


def _iqm(draws: Resamples) -> Array:
    ordered = np.sort(_pooled(draws), axis=1)
    n_cut = ordered.shape[1] // 4
    values: Array = ordered[:, n_cut : ordered.shape[1] - n_cut].mean(axis=1)
    return values


def _optimality_gap(draws: Resamples, gamma: float = 1.0) -> Array:
    if not np.isfinite(gamma):
        raise ConfigError(f"gamma={gamma}: expected a finite number")
    values: Array = gamma - np.minimum(_pooled(draws), gamma).mean(axis=1)
    return values


def _pooled(draws: Resamples) -> Array:
    return draws[0] if len(draws) == 1 else np.concatenate(draws, axis=1)


VECTORIZED = ((mean, _mean), (median, _median), (iqm, _iqm), (optimality_gap, _optimality_gap))
