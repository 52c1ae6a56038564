"""Scores of runs on tasks, in the forms that callers have them in, checked where they come in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.masked import MASKED, is_masked

__all__ = ["Array", "Scores", "Tasks", "normalize", "numbers_of", "pair_of", "tasks_of"]

Array: TypeAlias = NDArray[np.float64]
# [runs] of one task; [runs, tasks]; one array [runs] a task, in a sequence or by the task's name
Scores: TypeAlias = ArrayLike | Sequence[NDArray[Any]] | Mapping[Any, ArrayLike]

FORMS = "an array [runs] or [runs, tasks], a sequence of arrays [runs], or a mapping from task to [runs]"
NAMES_SHOWN = 5


@dataclass(frozen=True)
class Tasks:
    """Scores by task: `values[k]` `[runs]` are those of the task `names[k]`."""

    names: tuple[Any, ...]
    values: tuple[Array, ...]
    form: Callable[[Sequence[Array]], Any]  # other values in the form that these came in

    @property
    def sizes(self) -> list[int]:
        """How many runs each task has."""
        return [len(values) for values in self.values]

    @property
    def has_spread(self) -> bool:
        """Whether each task has two runs: one alone says nothing about how far others would be."""
        return min(self.sizes) > 1


def tasks_of(scores: Scores, name: str = "scores") -> Tasks:
    """Scores by task; errors call them `name`."""
    if isinstance(scores, Mapping):
        keys = tuple(scores)
        of = [_runs(scores[key], f"{name} of {key!r}") for key in keys]
        return _checked(
            Tasks(keys, tuple(of), lambda values: dict(zip(keys, values, strict=True))), name
        )
    if isinstance(scores, Sequence) and any(np.ndim(entry) for entry in scores):
        if not all(isinstance(entry, np.ndarray) for entry in scores):
            raise ShapeError(
                f"{name}: nested lists may mean runs of tasks or tasks of runs; "
                "give np.array(...) for [runs, tasks], or a mapping from task to its runs"
            )
        of = [_runs(entry, f"{name}[{k}]") for k, entry in enumerate(scores)]
        return _checked(Tasks(tuple(range(len(of))), tuple(of), list), name)
    values = numbers_of(scores, name)
    if values.ndim == 1:
        return _checked(Tasks((0,), (values,), lambda of: of[0]), name)
    if values.ndim != 2:
        raise ShapeError(f"{name} of shape {values.shape}: expected {FORMS}")
    return _checked(Tasks(tuple(range(values.shape[1])), tuple(values.T), np.column_stack), name)


def pair_of(x: Scores, y: Scores) -> tuple[Tasks, Tasks]:
    """Scores of two systems on the same tasks, in the order of the first's."""
    one, other = tasks_of(x, "x"), tasks_of(y, "y")
    if isinstance(x, Mapping) != isinstance(y, Mapping):
        raise ShapeError(
            "x and y: one is by the names of tasks and the other is not; give both alike"
        )
    if set(one.names) == set(other.names):
        by_name = dict(zip(other.names, other.values, strict=True))
        return one, Tasks(one.names, tuple(by_name[name] for name in one.names), other.form)
    if not isinstance(x, Mapping):
        raise ShapeError(
            f"x has {len(one.names)} tasks and y {len(other.names)}: expected the same"
        )
    raise ShapeError(
        "x and y are of different tasks: "
        f"only x has {_some(one.names, other.names)}, only y has {_some(other.names, one.names)}"
    )


def normalize(scores: Scores, low: Any, high: Any) -> Any:
    """`(scores - low) / (high - low)`, in the form that `scores` came in: 0 at `low`, 1 at `high`.

    The ends are one number for all tasks, or one for each: a sequence, or a mapping from task. Which they are
    (a random policy's score, a reference's, the best of a study) belongs beside every figure made of them.
    """
    tasks = tasks_of(scores)
    ends = zip(_ends(tasks, low, "low"), _ends(tasks, high, "high"), strict=True)
    found = []
    for name, values, (least, most) in zip(tasks.names, tasks.values, ends, strict=True):
        if least == most:
            raise ConfigError(
                f"low and high of task {name!r} are both {least}: expected two numbers"
            )
        found.append((values - least) / (most - least))
    return tasks.form(found)


def _ends(tasks: Tasks, given: Any, name: str) -> list[float]:
    if isinstance(given, Mapping):
        missing = [task for task in tasks.names if task not in given]
        if missing:
            raise ConfigError(f"{name} has no number for task {_some(missing, ())}")
        given = [given[task] for task in tasks.names]
    numbers = numbers_of(given, name)
    if numbers.shape not in ((), (len(tasks.names),)):
        raise ShapeError(
            f"{name} of shape {numbers.shape}: expected one number, "
            f"or one for each of {len(tasks.names)} tasks"
        )
    if not np.isfinite(numbers).all():
        raise NonFiniteError(f"{name}={given}: expected finite numbers")
    return [float(number) for number in np.broadcast_to(numbers, len(tasks.names))]


def _checked(tasks: Tasks, name: str) -> Tasks:
    if not tasks.names:
        raise ShapeError(f"no {name}: expected {FORMS}")
    for task, values in zip(tasks.names, tasks.values, strict=True):
        if values.size == 0:
            raise ShapeError(f"no {name} of task {task!r}: expected at least one run")
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            at = int(wrong[0])
            raise NonFiniteError(
                f"{name} of task {task!r}, run {at}: {values[at]}; expected finite numbers "
                "(say what a failed run counts as, and that it does)"
            )
    return tasks


def _runs(values: ArrayLike, name: str) -> Array:
    found = numbers_of(values, name)
    if found.ndim != 1:
        raise ShapeError(f"{name} have shape {found.shape}: expected [runs]")
    return found


def numbers_of(values: Any, name: str, expected: str = FORMS) -> Array:
    """What a caller gave as an array; `ShapeError` for what is no numbers: text, masked ones."""
    entries = values if isinstance(values, list | tuple) else ()
    if is_masked(values) or any(map(is_masked, entries)):
        raise ShapeError(f"{name}: {MASKED}")
    with suppress(TypeError, ValueError):
        if np.asarray(values).dtype.kind in "biufO":
            return np.asarray(values, np.float64)
    raise ShapeError(f"{name}: {type(values).__name__} is not numbers; expected {expected}")


def _some(names: Sequence[Any], without: Sequence[Any]) -> str:
    left = [repr(name) for name in names if name not in without]
    more = f" and {len(left) - NAMES_SHOWN} more" if len(left) > NAMES_SHOWN else ""
    return (", ".join(left[:NAMES_SHOWN]) or "none") + more
