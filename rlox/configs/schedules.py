"""Hyperparameters that change over a run: a number, `lin_3e-4`, points, or in Python a callable."""

from __future__ import annotations

import numbers
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any, cast

from rlox.configs.params import is_inside, is_object_name, param
from rlox.errors import ConfigError

__all__ = [
    "Schedule",
    "anneal_switches",
    "as_schedule",
    "check_schedules",
    "conflicting_fields",
    "is_constant",
    "is_known",
    "schedule",
    "schedule_value",
]

Points = tuple[tuple[float, float], ...]
# A callable gets the fraction of the run that is left, from 1 to 0, as in Stable-Baselines3.
Schedule = float | str | Points | Callable[[float], float]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LINEAR = re.compile(f"lin_({_NUMBER})(?:_({_NUMBER}))?")
_EXPECTED = (
    "expected a number, lin_3e-4 (falls linearly to 0), lin_3e-4_1e-5, or points "
    "[[0,3e-4],[0.5,1e-4],[1,0]] of the part of the run that is over and the value there"
)


def schedule(default: Any, doc: str, *, within: str, **options: Any) -> Any:
    """Declare a `param` that may change over the run; all its values are `within` the interval."""
    return param(default, doc, within=within, scheduled=True, **options)


def as_schedule(field: Field[Any], value: Any, path: str) -> Schedule:
    """Check a configured value; a schedule may also begin or end with 0."""
    points: Points
    if isinstance(value, str) and (match := _LINEAR.fullmatch(value)):
        result: Schedule = value
        points = ((0.0, float(match[1])), (1.0, float(match[2] or 0.0)))
    elif callable(value) or not is_known(value):
        return cast(Schedule, value)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        result = points = _parse_points(value, path)
    else:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise ConfigError(f"{path}={value!r}: {_EXPECTED}")
        result, points = float(value), ((0.0, float(value)),)
    interval = field.metadata["within"]
    for _, height in points:
        if not is_inside(height, interval) and not (len(points) > 1 and height == 0.0):
            raise ConfigError(
                f"{path}={_format_value(value)}: expected a value in {interval}, got {height:g}"
            )
    return result


def schedule_value(value: Schedule, remaining: float, key: str, within: str) -> float:
    """Return the value when the fraction `remaining` of the run is left, 1 at its start and 0 at its end."""
    if isinstance(value, (int, float)):
        return float(value)
    if callable(value):
        try:
            returned_value: Any = value(remaining)
            result = float(returned_value) if _is_number(returned_value) else None
        except Exception as error:
            raise ConfigError(
                f"{key}: the schedule fails when {remaining:g} of the run is left: {type(error).__name__}: "
                f"{error}"
            ) from error
        if result is None:
            raise ConfigError(
                f"{key}: the schedule gives {returned_value!r:.60} when {remaining:g} of the run is left, "
                "expected a number"
            )
        if not is_inside(result, within) and result != 0.0:
            raise ConfigError(
                f"{key}: the schedule gives {result:g} when {remaining:g} of the run is left, expected a "
                f"value in {within}"
            )
        return result
    if isinstance(value, tuple):
        return _interpolate(value, 1.0 - remaining)
    if match := _LINEAR.fullmatch(value):
        first, last = float(match[1]), float(match[2] or 0.0)
        return last + (first - last) * remaining if last else first * remaining
    name = key.rpartition(".")[2]
    raise ConfigError(
        f"{key}={value}: a callable, which is not saved; give it again: "
        f"from_checkpoint(path, schedules={{'{name}': f}})"
    )


def check_schedules(config: Any, schedules: Mapping[str, Any]) -> dict[str, Any]:
    """Check schedules for fields of a config object; raise `ConfigError` for a field that cannot have one."""
    schedulable_fields = {f.name: f for f in fields(config) if f.metadata.get("scheduled")}
    for name in schedules:
        if name not in schedulable_fields:
            raise ConfigError(f"schedules: {config.name} has {', '.join(schedulable_fields)}, got '{name}'")
    return {name: as_schedule(schedulable_fields[name], value, name) for name, value in schedules.items()}


def is_known(value: Any) -> bool:
    """Return whether the value is available; a file contains only the name of a callable."""
    return not (isinstance(value, str) and is_object_name(value))


def is_constant(value: Any) -> bool:
    """Return whether the value does not change over the run."""
    return value is None or isinstance(value, numbers.Real)


@cache
def anneal_switches(config_class: Any) -> dict[str, str]:
    """Map each annealed field to the switch that anneals it: `learning_rate` to `anneal_lr`."""
    pairs = ((f.metadata.get("anneals"), f.name) for f in fields(config_class))
    return {annealed_field: name for annealed_field, name in pairs if annealed_field}


def conflicting_fields(config_class: type[Any], values: Mapping[str, Any]) -> list[str]:
    """Return the fields of a dataclass that `values` overrides; a preset's values for these are dropped.

    Fields conflict by `instead_of`, in both directions, and by `anneals` if a schedule is given. null/false
    do not conflict, except that turning a switch off also drops the fields that are `only_with` it.
    """
    set_names = {name for name, value in values.items() if value is not None and value is not False}
    conflicts: dict[str, None] = {}
    for f in fields(config_class):
        alternatives = f.metadata.get("instead_of", ())
        conflicts |= dict.fromkeys(alternatives if f.name in set_names else ())
        conflicts |= dict.fromkeys([f.name] if set_names.intersection(alternatives) else ())
        if values.get(f.metadata.get("only_with") or "", True) is False:
            conflicts[f.name] = None
        annealed_field = f.metadata.get("anneals")
        if annealed_field in set_names and not is_constant(values[annealed_field]):
            conflicts[f.name] = None
    return [name for name in conflicts if name not in values]


def _as_float(value: Any) -> float:
    if not _is_number(value):
        raise TypeError("no number")
    return float(value)


def _is_number(value: Any) -> bool:
    """Return whether the value is a number, also of NumPy or torch, and not a bool or a text."""
    if isinstance(value, numbers.Real):
        return not isinstance(value, bool)
    return getattr(value, "ndim", None) == 0 and "float" in str(value.dtype)


def _parse_points(value: Iterable[Any], path: str) -> Points:
    try:
        points = tuple((_as_float(part), _as_float(height)) for part, height in value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}={_format_value(value)}: {_EXPECTED}") from error
    parts = [part for part, _ in points]
    if not points or parts != sorted(parts) or not 0.0 <= parts[0] <= parts[-1] <= 1.0:
        raise ConfigError(
            f"{path}={_format_value(value)}: the parts of the run rise from 0 to 1, e.g. [[0,3e-4],[1,1e-5]]"
        )
    return points


def _interpolate(points: Points, elapsed: float) -> float:
    """Interpolate linearly between the points around `elapsed`; outside of them use the nearest point."""
    index = bisect_right([part for part, _ in points], elapsed)
    if index in (0, len(points)):
        return points[min(index, len(points) - 1)][1]
    (left, low), (right, high) = points[index - 1], points[index]
    return low + (high - low) * (elapsed - left) / (right - left)


def _format_value(value: Any) -> str:
    return (
        value if isinstance(value, str) else str(value).replace(" ", "").replace("(", "[").replace(")", "]")
    )
