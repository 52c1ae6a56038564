"""Check that a value is in its space; if it is not, describe the difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.envs.spaces import ADDRESS_PATTERN

__all__ = ["Mismatch", "find_mismatch", "is_equal", "short_repr"]


@dataclass(frozen=True)
class Mismatch:
    """A difference between a value and its space."""

    code: str
    part: str  # key in a Dict or Tuple, empty for the whole
    text: str  # what was found, what was expected, and the remedy


def find_mismatch(space: Any, value: Any, part: str = "") -> Mismatch | None:
    """Return the first difference between the value and the space; `None` if it fits."""
    if value is None:
        return Mismatch(
            "observation-none",
            part,
            f"is None, expected {short_repr(space)}; look for a return statement that is missing",
        )
    for kind, check in _CHECKS.items():
        if isinstance(space, kind):
            problem: Mismatch | None = check(space, value, part)
            return problem
    if space.contains(value):
        return None
    return Mismatch(
        "observation-outside",
        part,
        f"is {short_repr(value)}, which {short_repr(space)} does not contain, expected a value like those of "
        "observation_space.sample(); compare the two",
    )


def is_equal(a: Any, b: Any) -> bool:
    """Tell whether two values are equal, for arrays including the dtype; NaN equals NaN."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(is_equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(is_equal, a, b))
    return bool(a == b or (a != a and b != b))


def short_repr(value: Any) -> str:
    """Format a value or a space in one line of at most 80 characters."""
    try:
        text = ADDRESS_PATTERN.sub("", " ".join(repr(value).split()))
    except Exception:  # repr can fail: an int of more than 4,300 digits
        return f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _check_box(space: spaces.Box, value: Any, part: str) -> Mismatch | None:
    if problem := _check_array(space, value, part):
        return problem
    if not np.can_cast(value.dtype, space.dtype):
        return Mismatch(
            "observation-dtype",
            part,
            f"is of {value.dtype}, expected {space.dtype} as its space says; return it with "
            f".astype(np.{space.dtype}), or give the space dtype=np.{value.dtype}",
        )
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return _not_finite_mismatch(value, part)
    is_outside = (value < space.low) | (value > space.high)
    if is_outside.any():
        at = tuple(int(i) for i in np.argwhere(is_outside)[0])
        return Mismatch(
            "observation-bounds",
            part,
            f"has {value[at]} at {list(at)}, expected {space.low[at]} to {space.high[at]} as its space says; "
            "clip it, or widen the bounds of the space",
        )
    return None


def _not_finite_mismatch(value: Any, part: str) -> Mismatch:
    is_nan = np.isnan(value)
    if is_nan.any():
        at = [int(i) for i in np.argwhere(is_nan)[0]]
        return Mismatch(
            "observation-nan",
            part,
            f"has NaN at {at}, expected a number; look for 0/0, a root of a negative number, or an array "
            "that was never filled",
        )
    at = [int(i) for i in np.argwhere(np.isinf(value))[0]]
    return Mismatch(
        "observation-infinite",
        part,
        f"has an infinite number at {at}, expected a finite one, as no network accepts it; use a large "
        "number, or a further part that says that there is no value",
    )


def _check_array(space: Any, value: Any, part: str) -> Mismatch | None:
    """Check the requirement of all array spaces: an array of their shape."""
    if not isinstance(value, np.ndarray | np.generic):
        return Mismatch(
            "observation-container",
            part,
            f"is a {type(value).__name__}, expected a NumPy array as its space {short_repr(space)} says; "
            f"return np.array(..., np.{space.dtype})",
        )
    if value.shape != space.shape:
        return Mismatch(
            "observation-shape",
            part,
            f"has shape {value.shape}, expected {space.shape} as its space says; reshape it, or give the "
            "space this shape",
        )
    return None


def _check_discrete(space: spaces.Discrete[Any], value: Any, part: str) -> Mismatch | None:
    number = np.asarray(value)
    if number.shape != () or number.dtype.kind not in "iu":
        return Mismatch(
            "observation-choice-kind",
            part,
            f"is {short_repr(value)} ({type(value).__name__}), expected a whole number of "
            f"Discrete({space.n}); return int(...)",
        )
    last = int(space.start) + int(space.n) - 1
    if not space.start <= number <= last:
        return Mismatch(
            "observation-choice-range",
            part,
            f"is {number}, expected {space.start} to {last} of Discrete({space.n}); count from "
            f"{space.start}, or make the space larger",
        )
    return None


def _check_multi_discrete(space: spaces.MultiDiscrete, value: Any, part: str) -> Mismatch | None:
    if isinstance(value, np.ndarray) and value.shape != space.shape:
        return Mismatch(
            "observation-choices-length",
            part,
            f"has {list(value.shape)} choices, expected {list(space.shape)} of its MultiDiscrete; return one "
            "whole number for each entry of nvec",
        )
    if problem := _check_array(space, value, part):
        return problem
    is_outside = (value < space.start) | (value >= space.start + space.nvec)
    if value.dtype.kind not in "iu" or is_outside.any():
        return Mismatch(
            "observation-choices-range",
            part,
            f"is {short_repr(value)}, expected whole numbers below {space.nvec.tolist()} (from "
            f"{space.start.tolist()}) of its MultiDiscrete; correct the numbers, or nvec",
        )
    return None


def _check_multi_binary(space: spaces.MultiBinary, value: Any, part: str) -> Mismatch | None:
    if problem := _check_array(space, value, part):
        return problem
    if not np.isin(value, (0, 1)).all():
        return Mismatch(
            "observation-binary",
            part,
            f"is {short_repr(value)}, expected 0 and 1 of its MultiBinary; compare with > 0, or use "
            "MultiDiscrete for counts",
        )
    return None


def _check_dict(space: spaces.Dict, value: Any, part: str) -> Mismatch | None:
    if not isinstance(value, Mapping):
        return Mismatch(
            "observation-no-mapping",
            part,
            f"is a {type(value).__name__}, expected a dict with {sorted(space.spaces)} as its Dict space "
            "says; return the parts by their names",
        )
    if missing := sorted(space.spaces.keys() - value.keys(), key=str):
        return Mismatch(
            "observation-missing-part",
            part,
            f"lacks {missing}, expected all of {sorted(space.spaces)}; add it, or take it out of the space",
        )
    if extra := sorted(value.keys() - space.spaces.keys(), key=str):
        return Mismatch(
            "observation-extra-part",
            part,
            f"also has {extra}, expected only {sorted(space.spaces)}; put it into the info, or into the "
            "space",
        )
    problems = (find_mismatch(inner, value[key], f"{part}[{key!r}]") for key, inner in space.spaces.items())
    return next(filter(None, problems), None)


def _check_tuple(space: spaces.Tuple[Any], value: Any, part: str) -> Mismatch | None:
    if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
        actual = f"{len(value)} parts" if isinstance(value, tuple | list) else type(value).__name__
        return Mismatch(
            "observation-tuple-length",
            part,
            f"has {actual}, expected a tuple of {len(space.spaces)} as its Tuple space says; return one "
            "value "
            "for each of its spaces",
        )
    problems = (find_mismatch(inner, value[i], f"{part}[{i}]") for i, inner in enumerate(space.spaces))
    return next(filter(None, problems), None)


_CHECKS: dict[type[Any], Any] = {
    spaces.Box: _check_box,
    spaces.Discrete: _check_discrete,
    spaces.MultiDiscrete: _check_multi_discrete,
    spaces.MultiBinary: _check_multi_binary,
    spaces.Dict: _check_dict,
    spaces.Tuple: _check_tuple,
}
