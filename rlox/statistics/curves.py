"""Sample efficiency: the score of an algorithm as a function of steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from rlox.errors import NonFiniteError, ShapeError
from rlox.statistics.bootstrap import require_bootstrap_arguments, resample_indices
from rlox.statistics.estimators import Statistic, iqm, vectorize
from rlox.statistics.scores import Array, Tasks, parse_numbers

__all__ = ["Curve", "RunCurve", "sample_efficiency"]

RunCurve: TypeAlias = tuple[ArrayLike, ArrayLike]  # increasing steps, and the value at each
N_GRID_POINTS = 100


@dataclass(frozen=True, eq=False)
class Curve:
    """An estimate at each step with its interval from `low` to `high` and the number of runs.

    Each array has one number per step. The estimate is NaN at steps where a task has no run. `low` and `high`
    are NaN there, too, and where a task has only one run.
    """

    steps: Array
    estimate: Array
    low: Array
    high: Array
    runs: Array


def sample_efficiency(
    curves: Sequence[RunCurve] | Mapping[Any, Sequence[RunCurve]],
    statistic: Statistic = iqm,
    *,
    rng: np.random.Generator,
    steps: ArrayLike | None = None,
    resamples: int = 2000,
    level: float = 0.95,
) -> Curve:
    """Compute `statistic` over runs, and its interval from runs resampled within tasks, at each of `steps`.

    `curves` are the runs of one task, or a mapping from task to runs. A run is `(steps, values)`; it is
    interpolated linearly and never extrapolated. By default `steps` are a hundred steps, from the latest
    first step of a run to the earliest last step, so every run counts at every step. At given `steps` outside
    that range only runs with values count. The field `runs` has their number; these runs may be better or
    worse than the others.
    """
    require_bootstrap_arguments(rng, resamples, level)
    curves_by_task = curves if isinstance(curves, Mapping) else {0: curves}
    tasks = {
        name: [_check_run(r, name, k) for k, r in enumerate(runs_of_task)]
        for name, runs_of_task in curves_by_task.items()
    }
    if not tasks or not all(tasks.values()):
        raise ShapeError(f"curves: {len(tasks)} tasks, one without runs; expected runs of each")
    grid = _step_grid([run for runs_of_task in tasks.values() for run in runs_of_task], steps)
    values = [
        np.array([np.interp(grid, *run, left=np.nan, right=np.nan) for run in runs_of_task])
        for runs_of_task in tasks.values()
    ]
    has_value = ~np.isnan(np.concatenate(values))
    results = np.full((3, grid.size), np.nan)
    # steps with the same runs share one set of resamples
    _, group = np.unique(has_value, axis=1, return_inverse=True)
    for group_id in np.unique(group):
        columns = np.flatnonzero(group == group_id)
        values_here = [
            runs_of_task[:, columns][~np.isnan(runs_of_task[:, columns[0]])] for runs_of_task in values
        ]
        if all(len(runs_of_task) for runs_of_task in values_here):
            results[:, columns] = _estimates(tuple(tasks), values_here, statistic, (rng, resamples, level))
    estimate, low, high = results
    return Curve(grid, estimate, low, high, has_value.sum(axis=0).astype(np.float64))


def _estimates(
    names: tuple[Any, ...],
    values: Sequence[Array],
    statistic: Statistic,
    bootstrap_args: tuple[np.random.Generator, int, float],
) -> Array:
    """Return estimates and interval ends `[3, steps]` for the values `[runs, steps]` of each task."""
    rng, resamples, level = bootstrap_args
    tasks = Tasks(
        names,
        tuple(task_values[:, 0] for task_values in values),
        lambda task_values: dict(zip(names, task_values, strict=True)),
    )
    estimate_all = vectorize(statistic, tasks)
    columns = range(values[0].shape[1])
    # copies, because a statistic may write to its argument
    estimate = [estimate_all([task_values[None, :, k].copy() for task_values in values])[0] for k in columns]
    if not tasks.has_spread:
        return np.array([estimate, *np.full((2, len(estimate)), np.nan)])
    draws: list[list[Array]] = [[] for _ in columns]
    for indices_drawn in resample_indices(tasks.sizes, rng, resamples):
        for k in columns:
            resampled = [
                task_values[:, k][rows] for task_values, rows in zip(values, indices_drawn, strict=True)
            ]
            draws[k].append(estimate_all(resampled))
    quantiles = [(1 - level) / 2, (1 + level) / 2]
    return np.array(
        [estimate, *np.quantile([np.concatenate(task_values) for task_values in draws], quantiles, axis=1)]
    )


def _step_grid(runs: Sequence[tuple[Array, Array]], steps: ArrayLike | None) -> Array:
    if steps is not None:
        grid = parse_numbers(steps, "steps", "[steps]")
        if grid.ndim != 1 or grid.size == 0 or not np.isfinite(grid).all():
            raise ShapeError(f"steps of shape {grid.shape}: expected finite numbers, [steps]")
        return grid
    start, end = max(run_steps[0] for run_steps, _ in runs), min(run_steps[-1] for run_steps, _ in runs)
    if start > end:
        raise ShapeError(
            f"curves: one run begins at step {start:g} and another ends at {end:g}; "
            "give the steps to estimate at (steps=...)"
        )
    return np.linspace(start, end, N_GRID_POINTS if start < end else 1)


def _check_run(run: RunCurve, task: object, run_index: int) -> tuple[Array, Array]:
    name = f"run {run_index} of task {task!r}"
    if len(run) != 2:
        raise ShapeError(f"{name}: {len(run)} arrays; expected two, (steps, values)")
    steps, values = (parse_numbers(column, name, "arrays [points]") for column in run)
    if steps.ndim != 1 or steps.shape != values.shape or steps.size == 0:
        raise ShapeError(
            f"{name}: steps of shape {steps.shape}, values of shape {values.shape}; "
            "expected the same, [points], at least one"
        )
    for column, column_name in ((steps, "steps"), (values, "values")):
        if not np.isfinite(column).all():
            raise NonFiniteError(f"{name}: {column_name} have NaN or infinity; expected finite numbers")
    if not (np.diff(steps) > 0).all():
        raise ShapeError(f"{name}: steps do not rise; expected each above the one before")
    return steps, values
