"""Hyperparameters that change over a run: a number, `lin_3e-4`, points, or in Python a callable."""

from __future__ import annotations

import numbers
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any, cast

from rlox.configs.params import inside, is_object_name, param
from rlox.errors import ConfigError

__all__ = [
    "Schedule",
    "annealing",
    "as_schedule",
    "is_constant",
    "is_known",
    "other_ways",
    "schedule",
    "scheduled",
    "value_at",
]

Points = tuple[tuple[float, float], ...]
# A callable is told the part of the run that is left, from 1 to 0, as in Stable-Baselines3.
Schedule = float | str | Points | Callable[[float], float]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LINEAR = re.compile(f"lin_({_NUMBER})(?:_({_NUMBER}))?")
_EXPECTED = (
    "expected a number, lin_3e-4 (falls linearly to 0), lin_3e-4_1e-5, or points "
    "[[0,3e-4],[0.5,1e-4],[1,0]] of the part of the run that is over and the value there"
)


def schedule(default: Any, doc: str, *, within: str, **more: Any) -> Any:
    """A `param` that may also change over the run; each of its values is `within` the interval."""
    return param(default, doc, within=within, scheduled=True, **more)


def as_schedule(field: Field[Any], value: Any, path: str) -> Schedule:
    """A value as it is configured, checked; 0 is allowed in a schedule, to begin or end with."""
    points: Points
    if isinstance(value, str) and (match := _LINEAR.fullmatch(value)):
        found: Schedule = value
        points = ((0.0, float(match[1])), (1.0, float(match[2] or 0.0)))
    elif callable(value) or not is_known(value):
        return cast(Schedule, value)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        found = points = _points(value, path)
    else:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ConfigError(f"{path}={value!r}: {_EXPECTED}")
        found, points = float(value), ((0.0, float(value)),)
    interval = field.metadata["within"]
    for _, height in points:
        if not inside(height, interval) and not (len(points) > 1 and height == 0.0):
            raise ConfigError(
                f"{path}={_text(value)}: expected a value in {interval}, got {height:g}"
            )
    return found


def value_at(given: Schedule, left: float, key: str, within: str) -> float:
    """The value when the part `left` of the run is left, 1 at its start and 0 at its end."""
    if isinstance(given, (int, float)):
        return float(given)
    if callable(given):
        try:
            answer: Any = given(left)
            found = float(answer) if _is_number(answer) else None
        except Exception as error:
            raise ConfigError(
                f"{key}: the schedule fails when {left:g} of the run is left: {type(error).__name__}: {error}"
            ) from error
        if found is None:
            raise ConfigError(
                f"{key}: the schedule gives {answer!r:.60} when {left:g} of the run is left, expected a "
                "number"
            )
        if not inside(found, within) and found != 0.0:
            raise ConfigError(
                f"{key}: the schedule gives {found:g} when {left:g} of the run is left, expected a value "
                f"in {within}"
            )
        return found
    if isinstance(given, tuple):
        return _between(given, 1.0 - left)
    if match := _LINEAR.fullmatch(given):
        first, last = float(match[1]), float(match[2] or 0.0)
        return last + (first - last) * left if last else first * left
    name = key.rpartition(".")[2]
    raise ConfigError(
        f"{key}={given}: a callable, which is not saved; give it again: "
        f"from_checkpoint(path, schedules={{'{name}': f}})"
    )


def scheduled(config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Schedules for fields of a config object, checked; `ConfigError` for a field that can have none."""
    known = {f.name: f for f in fields(config) if f.metadata.get("scheduled")}
    for name in given:
        if name not in known:
            raise ConfigError(f"schedules: {config.name} has {', '.join(known)}, got '{name}'")
    return {name: as_schedule(known[name], value, name) for name, value in given.items()}


def is_known(given: Any) -> bool:
    """Whether it is there: of a callable files have the name only."""
    return not (isinstance(given, str) and is_object_name(given))


def is_constant(given: Any) -> bool:
    """Whether the value is the same all the way."""
    return given is None or isinstance(given, numbers.Real)


@cache
def annealing(kind: Any) -> dict[str, str]:
    """Of the fields that another one lets fall to 0, the name of that: `learning_rate` by `anneal_lr`."""
    pairs = ((f.metadata.get("anneals"), f.name) for f in fields(kind))
    return {annealed: name for annealed, name in pairs if annealed}


def other_ways(kind: type[Any], given: Mapping[str, Any]) -> list[str]:
    """The fields of a dataclass that say in another way what `given` says: presets' values of them go.

    Declared by `instead_of`, in both directions, and by `anneals` where a schedule is given. Null and false
    say nothing, but that what is declared `only_with` a switch goes where the switch is off.
    """
    said = {name for name, value in given.items() if value is not None and value is not False}
    found: dict[str, None] = {}
    for f in fields(kind):
        beside = f.metadata.get("instead_of", ())
        found |= dict.fromkeys(beside if f.name in said else ())
        found |= dict.fromkeys([f.name] if said.intersection(beside) else ())
        if given.get(f.metadata.get("only_with") or "", True) is False:
            found[f.name] = None
        changed = f.metadata.get("anneals")
        if changed in said and not is_constant(given[changed]):
            found[f.name] = None
    return [name for name in found if name not in given]


def _as_float(given: Any) -> float:
    if not _is_number(given):
        raise TypeError("no number")
    return float(given)


def _is_number(given: Any) -> bool:
    """Whether it is a number, of NumPy or torch too: no flag and no text, of which `float` makes one."""
    if isinstance(given, numbers.Real):
        return not isinstance(given, bool)
    return getattr(given, "ndim", None) == 0 and "float" in str(given.dtype)


def _points(value: Iterable[Any], path: str) -> Points:
    try:
        points = tuple((_as_float(part), _as_float(height)) for part, height in value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}={_text(value)}: {_EXPECTED}") from error
    parts = [part for part, _ in points]
    if not points or parts != sorted(parts) or not 0.0 <= parts[0] <= parts[-1] <= 1.0:
        raise ConfigError(
            f"{path}={_text(value)}: the parts of the run rise from 0 to 1, e.g. [[0,3e-4],[1,1e-5]]"
        )
    return points


def _between(points: Points, over: float) -> float:
    """On the straight line between the points around `over`; before the first and after the last, theirs."""
    at = bisect_right([part for part, _ in points], over)
    if at in (0, len(points)):
        return points[min(at, len(points) - 1)][1]
    (left, low), (right, high) = points[at - 1], points[at]
    return low + (high - low) * (over - left) / (right - left)


def _text(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else str(value).replace(" ", "").replace("(", "[").replace(")", "]")
    )
