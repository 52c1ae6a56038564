"""Scores of runs on tasks: the accepted input forms and their validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = ["Array", "Scores", "Tasks", "match_tasks", "normalize", "parse_numbers", "parse_scores"]

Array: TypeAlias = NDArray[np.float64]
# [runs] of one task; [runs, tasks]; or one array [runs] per task, in a sequence or a mapping by task name
Scores: TypeAlias = ArrayLike | Sequence[NDArray[Any]] | Mapping[Any, ArrayLike]

EXPECTED_FORMS = (
    "an array [runs] or [runs, tasks], a sequence of arrays [runs], or a mapping from task to [runs]"
)
NAMES_SHOWN = 5


@dataclass(frozen=True)
class Tasks:
    """Scores by task: `values[k]` `[runs]` are those of the task `names[k]`."""

    names: tuple[Any, ...]
    values: tuple[Array, ...]
    to_input_form: Callable[[Sequence[Array]], Any]  # converts other values to the caller's input form

    @property
    def sizes(self) -> list[int]:
        """Number of runs of each task."""
        return [len(values) for values in self.values]

    @property
    def has_spread(self) -> bool:
        """Whether each task has at least two runs; a single run gives no estimate of the spread."""
        return min(self.sizes) > 1


def parse_scores(scores: Scores, name: str = "scores") -> Tasks:
    """Parse scores by task; `name` is their name in errors."""
    if isinstance(scores, Mapping):
        keys = tuple(scores)
        values_by_task = [_parse_runs(scores[key], f"{name} of {key!r}") for key in keys]
        return _require_finite(
            Tasks(keys, tuple(values_by_task), lambda values: dict(zip(keys, values, strict=True))), name
        )
    if isinstance(scores, Sequence) and any(np.ndim(task_values) for task_values in scores):
        if not all(isinstance(task_values, np.ndarray) for task_values in scores):
            raise ShapeError(
                f"{name}: nested lists may mean runs of tasks or tasks of runs; "
                "give np.array(...) for [runs, tasks], or a mapping from task to its runs"
            )
        values_by_task = [_parse_runs(task_values, f"{name}[{k}]") for k, task_values in enumerate(scores)]
        return _require_finite(Tasks(tuple(range(len(values_by_task))), tuple(values_by_task), list), name)
    values = parse_numbers(scores, name)
    if values.ndim == 1:
        return _require_finite(Tasks((0,), (values,), lambda values_by_task: values_by_task[0]), name)
    if values.ndim != 2:
        raise ShapeError(f"{name} of shape {values.shape}: expected {EXPECTED_FORMS}")
    return _require_finite(Tasks(tuple(range(values.shape[1])), tuple(values.T), np.column_stack), name)


def match_tasks(x: Scores, y: Scores) -> tuple[Tasks, Tasks]:
    """Parse the scores of two algorithms on the same tasks, in the order of tasks in `x`."""
    x_tasks, y_tasks = parse_scores(x, "x"), parse_scores(y, "y")
    if isinstance(x, Mapping) != isinstance(y, Mapping):
        raise ShapeError("x and y: one is a mapping by task and the other is not; give both in the same form")
    if set(x_tasks.names) == set(y_tasks.names):
        by_name = dict(zip(y_tasks.names, y_tasks.values, strict=True))
        return x_tasks, Tasks(
            x_tasks.names, tuple(by_name[name] for name in x_tasks.names), y_tasks.to_input_form
        )
    if not isinstance(x, Mapping):
        raise ShapeError(f"x has {len(x_tasks.names)} tasks and y {len(y_tasks.names)}: expected the same")
    raise ShapeError(
        "x and y are of different tasks: "
        f"only x has {_names_text(x_tasks.names, y_tasks.names)}, only y has "
        f"{_names_text(y_tasks.names, x_tasks.names)}"
    )


def normalize(scores: Scores, low: Any, high: Any) -> Any:
    """Return `(scores - low) / (high - low)` in the input form of `scores`: 0 at `low`, 1 at `high`.

    `low` and `high` are one number for all tasks, or one per task: a sequence, or a mapping from task. Report
    what they are (a random policy's score, a reference's, the best of a study) with every figure.
    """
    tasks = parse_scores(scores)
    limits = zip(_limits_by_task(tasks, low, "low"), _limits_by_task(tasks, high, "high"), strict=True)
    normalized = []
    for name, values, (low_of_task, high_of_task) in zip(tasks.names, tasks.values, limits, strict=True):
        if low_of_task == high_of_task:
            raise ConfigError(f"low and high of task {name!r} are both {low_of_task}: expected two numbers")
        normalized.append((values - low_of_task) / (high_of_task - low_of_task))
    return tasks.to_input_form(normalized)


def _limits_by_task(tasks: Tasks, limits: Any, name: str) -> list[float]:
    if isinstance(limits, Mapping):
        missing = [task for task in tasks.names if task not in limits]
        if missing:
            raise ConfigError(f"{name} has no number for task {_names_text(missing, ())}")
        limits = [limits[task] for task in tasks.names]
    numbers = parse_numbers(limits, name)
    if numbers.shape not in ((), (len(tasks.names),)):
        raise ShapeError(
            f"{name} of shape {numbers.shape}: expected one number, "
            f"or one for each of {len(tasks.names)} tasks"
        )
    if not np.isfinite(numbers).all():
        raise NonFiniteError(f"{name}={limits}: expected finite numbers")
    return [float(number) for number in np.broadcast_to(numbers, len(tasks.names))]


def _require_finite(tasks: Tasks, name: str) -> Tasks:
    if not tasks.names:
        raise ShapeError(f"no {name}: expected {EXPECTED_FORMS}")
    for task, values in zip(tasks.names, tasks.values, strict=True):
        if values.size == 0:
            raise ShapeError(f"no {name} of task {task!r}: expected at least one run")
        invalid = np.flatnonzero(~np.isfinite(values))
        if invalid.size:
            run_index = int(invalid[0])
            raise NonFiniteError(
                f"{name} of task {task!r}, run {run_index}: {values[run_index]}; expected finite numbers "
                "(give a failed run an explicit score, and report that)"
            )
    return tasks


def _parse_runs(values: ArrayLike, name: str) -> Array:
    run_values = parse_numbers(values, name)
    if run_values.ndim != 1:
        raise ShapeError(f"{name} have shape {run_values.shape}: expected [runs]")
    return run_values


def parse_numbers(values: Any, name: str, expected: str = EXPECTED_FORMS) -> Array:
    """Convert a caller's value to a float array; `ShapeError` for text and masked values."""
    entries = values if isinstance(values, list | tuple) else ()
    if is_masked(values) or any(map(is_masked, entries)):
        raise ShapeError(f"{name}: {MASKED_MESSAGE}")
    with suppress(TypeError, ValueError):
        if np.asarray(values).dtype.kind in "biufO":
            return np.asarray(values, np.float64)
    raise ShapeError(f"{name}: {type(values).__name__} is not numbers; expected {expected}")


def _names_text(names: Sequence[Any], excluded: Sequence[Any]) -> str:
    remaining = [repr(name) for name in names if name not in excluded]
    suffix = f" and {len(remaining) - NAMES_SHOWN} more" if len(remaining) > NAMES_SHOWN else ""
    return (", ".join(remaining[:NAMES_SHOWN]) or "none") + suffix
