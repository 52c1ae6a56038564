"""Sample efficiency: what a system scores after how many steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rlox.errors import NonFiniteError, ShapeError
from rlox.statistics.bootstrap import check, indices
from rlox.statistics.estimators import Statistic, iqm, of_draws
from rlox.statistics.scores import Array, Tasks, numbers_of

__all__ = ["Curve", "Run", "sample_efficiency"]

Run: TypeAlias = tuple[ArrayLike, ArrayLike]  # steps, rising, and the value at each
GRID = 100


@dataclass(frozen=True, eq=False)
class Curve:
    """An estimate at each step with the ends of its interval, and how many runs it is of; all `[steps]`.

    The estimate is NaN where a task has no run, its ends also where one has a single run.
    """

    steps: Array
    estimate: Array
    low: Array
    high: Array
    runs: Array


def sample_efficiency(
    curves: Sequence[Run] | Mapping[Any, Sequence[Run]],
    statistic: Statistic = iqm,
    *,
    rng: np.random.Generator,
    steps: ArrayLike | None = None,
    resamples: int = 2000,
    level: float = 0.95,
) -> Curve:
    """`statistic` over runs at each of `steps`, with pointwise bands: runs are drawn again within their task.

    `curves` are the runs of one task, or of each by its name; a run is `(steps, values)`, joined by straight
    lines and never continued. Without `steps` they are a hundred, from where the last run begins to where
    the first ends, so that each counts everywhere. Where given `steps` go beyond, a run counts as far as it
    has values: `runs` says how many do, and those that are left may be the better or the worse ones.
    """
    check(rng, resamples, level)
    named = curves if isinstance(curves, Mapping) else {0: curves}
    tasks = {name: [_run(r, name, k) for k, r in enumerate(of)] for name, of in named.items()}
    if not tasks or not all(tasks.values()):
        raise ShapeError(f"curves: {len(tasks)} tasks, one without runs; expected runs of each")
    grid = _grid([run for of in tasks.values() for run in of], steps)
    values = [
        np.array([np.interp(grid, *run, left=np.nan, right=np.nan) for run in of])
        for of in tasks.values()
    ]
    there = ~np.isnan(np.concatenate(values))
    found = np.full((3, grid.size), np.nan)
    # one set of resamples for all steps that have the same runs
    _, group = np.unique(there, axis=1, return_inverse=True)
    for which in np.unique(group):
        at = np.flatnonzero(group == which)
        here = [of[:, at][~np.isnan(of[:, at[0]])] for of in values]
        if all(len(of) for of in here):
            found[:, at] = _estimates(tuple(tasks), here, statistic, (rng, resamples, level))
    estimate, low, high = found
    return Curve(grid, estimate, low, high, there.sum(axis=0).astype(np.float64))


def _estimates(
    names: tuple[Any, ...],
    values: Sequence[Array],
    statistic: Statistic,
    how: tuple[np.random.Generator, int, float],
) -> Array:
    """Estimates and the ends of their intervals `[3, steps]` of values `[runs, steps]` of each task."""
    rng, resamples, level = how
    tasks = Tasks(
        names, tuple(of[:, 0] for of in values), lambda of: dict(zip(names, of, strict=True))
    )
    all_at_once = of_draws(statistic, tasks)
    columns = range(values[0].shape[1])
    # copies: a statistic may write to what it is given
    estimate = [all_at_once([of[None, :, k].copy() for of in values])[0] for k in columns]
    if not tasks.has_spread:
        return np.array([estimate, *np.full((2, len(estimate)), np.nan)])
    draws: list[list[Array]] = [[] for _ in columns]
    for drawn in indices(tasks.sizes, rng, resamples):
        for k in columns:
            some = [of[:, k][rows] for of, rows in zip(values, drawn, strict=True)]
            draws[k].append(all_at_once(some))
    bounds = [(1 - level) / 2, (1 + level) / 2]
    return np.array([estimate, *np.quantile([np.concatenate(of) for of in draws], bounds, axis=1)])


def _grid(runs: Sequence[tuple[Array, Array]], steps: ArrayLike | None) -> Array:
    if steps is not None:
        grid = numbers_of(steps, "steps", "[steps]")
        if grid.ndim != 1 or grid.size == 0 or not np.isfinite(grid).all():
            raise ShapeError(f"steps of shape {grid.shape}: expected finite numbers, [steps]")
        return grid
    first, last = max(at[0] for at, _ in runs), min(at[-1] for at, _ in runs)
    if first > last:
        raise ShapeError(
            f"curves: one run begins at step {first:g} and another ends at {last:g}; "
            "give the steps to estimate at (steps=...)"
        )
    return np.linspace(first, last, GRID if first < last else 1)


def _run(run: Run, task: object, number: int) -> tuple[Array, Array]:
    name = f"run {number} of task {task!r}"
    if len(run) != 2:
        raise ShapeError(f"{name}: {len(run)} arrays; expected two, (steps, values)")
    at, values = (numbers_of(column, name, "arrays [points]") for column in run)
    if at.ndim != 1 or at.shape != values.shape or at.size == 0:
        raise ShapeError(
            f"{name}: steps of shape {at.shape}, values of shape {values.shape}; "
            "expected the same, [points], at least one"
        )
    for column, what in ((at, "steps"), (values, "values")):
        if not np.isfinite(column).all():
            raise NonFiniteError(f"{name}: {what} have NaN or infinity; expected finite numbers")
    if not (np.diff(at) > 0).all():
        raise ShapeError(f"{name}: steps do not rise; expected each above the one before")
    return at, values
