"""Parts of an action space, which convert columns of a policy's rows to environment actions and back.

Limits of spaces: the length of a row, and the range of an integer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.spaces import format_space
from rlox.errors import ShapeError, UnsupportedSpaceError

__all__ = [
    "ActionPart",
    "BoxPart",
    "DiscretePart",
    "choice_counts",
    "leaf_spaces",
    "leaf_values",
    "require_choices_fit",
    "require_width",
    "to_nested",
]

Space = gym.Space[Any]


@dataclass(frozen=True, eq=False)
class ActionPart(ABC):
    """A leaf of an action space (no Dict or Tuple), with its `columns` in a policy's row `[..., width]`."""

    space: Space
    name: str  # path in the space, such as `arm.grip` or `[0]`; empty for the whole space
    columns: slice

    def to_env(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Convert this part's columns of N rows to environment actions `[N, *shape]`, in the space's dtype.

        The result is a copy: an environment may write into its action, while learning uses the rows.
        """
        return self.decode(rows).reshape(len(rows), *(self.space.shape or ()))

    @abstractmethod
    def decode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Convert this part's columns of N rows to numbers of the space, in a new array of its dtype."""

    @abstractmethod
    def from_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Convert numbers of the space `[N, columns]` to this part's columns of N rows."""


@dataclass(frozen=True, eq=False)
class DiscretePart(ActionPart):
    """Discrete, MultiDiscrete or MultiBinary: a column for each choice, counted from 0."""

    start: NDArray[np.int64]  # [columns], the environment's number for choice 0

    def decode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the environment's numbers for the choices."""
        shifted = rows.astype(np.int64, copy=False) + self.start  # a new array, even if start is 0
        return shifted.astype(self.space.dtype, copy=False)

    def from_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return choices counted from 0, int64; `ShapeError` for fractions or numbers outside the space."""
        if (np.asarray(actions, np.int64) != actions).any():
            raise ShapeError(f"actions {actions} are not whole numbers, as {self.space} needs")
        choices = actions.astype(np.int64) - self.start
        counts = choice_counts(self.space)
        assert counts is not None
        if (outside := (choices < 0) | (choices >= counts.reshape(-1))).any():
            raise ShapeError(f"action {actions[outside][0]} is no choice of {self.space}")
        return choices


@dataclass(frozen=True, eq=False)
class BoxPart(ActionPart):
    """A Box: numbers are clipped to the bounds `[columns]` and, for integers, rounded (half to even)."""

    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, space: spaces.Box, name: str, columns: slice) -> BoxPart:
        """Make the part for `space`; a missing bound becomes the limit of the dtype."""
        assert space.dtype is not None
        limit: Any = np.finfo(space.dtype) if space.dtype.kind == "f" else np.iinfo(space.dtype)
        low, high = np.maximum(space.low, limit.min), np.minimum(space.high, limit.max)
        return cls(space, name, columns, low.reshape(-1), high.reshape(-1))

    def decode(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return numbers within the bounds."""
        if self.low.dtype.kind == "f":
            clipped: NDArray[Any] = np.clip(rows, self.low, self.high).astype(self.low.dtype, copy=False)
            return clipped
        rounded = np.rint(rows, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # no warning for numbers beyond the dtype: bounds replace them
            integers = rounded.astype(self.low.dtype)
        return np.where(rounded <= self.low, self.low, np.where(rounded >= self.high, self.high, integers))

    def from_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Return the same numbers as float32."""
        return actions.astype(np.float32)


def choice_counts(space: Space) -> NDArray[np.int64] | None:
    """Return the number of values of each choice of a space; `None` for a space without choices."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.astype(np.int64)
    if isinstance(space, spaces.MultiBinary):
        return np.full(space.shape, 2, np.int64)
    return None


def leaf_spaces(space: Space, name: str = "") -> Iterator[tuple[str, Space]]:
    """Yield the leaves of Dicts and Tuples with their names, in the order of the space."""
    for key, part in _child_spaces(space, name):
        if isinstance(part, spaces.Dict | spaces.Tuple) and part.spaces:
            yield from leaf_spaces(part, key)
        else:
            yield key, part


def to_nested(space: Space, values: Iterator[Any]) -> Any:
    """Build a value in the form of the space (dict, tuple or one leaf); `values` has one value per leaf."""
    if isinstance(space, spaces.Dict):
        return {key: to_nested(part, values) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(to_nested(part, values) for part in space.spaces)
    return next(values)


def leaf_values(space: Space, nested_value: Any, label: str) -> Iterator[tuple[str, Space, Any]]:
    """Yield name, space and value of each leaf space, the reverse of `to_nested`; missing values are `None`.

    `ShapeError` for values of another form than the space, and for unknown parts. `label` names the value in
    messages.
    """
    yield from _leaf_values(space, nested_value, label, "")


def _leaf_values(space: Space, nested_value: Any, label: str, name: str) -> Iterator[tuple[str, Space, Any]]:
    part_label = f"{label} {name}".strip()
    if isinstance(space, spaces.Dict):
        if not isinstance(nested_value, Mapping) or (
            unknown_keys := nested_value.keys() - space.spaces.keys()
        ):
            actual = (
                sorted(map(str, unknown_keys))
                if isinstance(nested_value, Mapping)
                else type(nested_value).__name__
            )
            raise ShapeError(f"{part_label}: {actual}, expected a dict with the keys {list(space.spaces)}")
        values = [nested_value.get(key) for key in space.spaces]
    elif isinstance(space, spaces.Tuple):
        if not isinstance(nested_value, tuple | list) or len(nested_value) != len(space.spaces):
            raise ShapeError(
                f"{part_label}: {type(nested_value).__name__}, expected a tuple of {len(space.spaces)} parts"
            )
        values = list(nested_value)
    else:
        yield name, space, nested_value
        return
    for (key, part), value in zip(_child_spaces(space, name), values, strict=True):
        if value is None:
            yield from ((leaf, inner, None) for leaf, inner in leaf_spaces(part, key))
        else:
            yield from _leaf_values(part, value, label, key)


def _child_spaces(space: Space, name: str) -> Iterator[tuple[str, Space]]:
    """Yield the parts of a Dict or a Tuple with their names; for another space, the space itself."""
    if isinstance(space, spaces.Dict):
        yield from ((f"{name}.{k}" if name else str(k), p) for k, p in space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        yield from ((f"{name}[{i}]", part) for i, part in enumerate(space.spaces))
    else:
        yield name, space


MAX_WIDTH = 1 << 28  # numbers in a row: a gigabyte of float32


def require_width(kind: str, space: gym.Space[Any], width: int, name: str) -> None:
    """Raise `UnsupportedSpaceError` if a row of the `kind` (observation or action) has too many numbers."""
    if width > MAX_WIDTH:
        raise UnsupportedSpaceError(
            f"{name} has {kind} space {format_space(space)}, which takes {width:,} numbers a row, expected "
            f"at most {MAX_WIDTH:,}; wrap it with gymnasium.wrappers.Transform{kind.title()}"
        )


def require_choices_fit(kind: str, space: spaces.Discrete[Any] | spaces.MultiDiscrete, name: str) -> None:
    """Raise `UnsupportedSpaceError` if the last choice overflows the space's dtype or int64."""
    n_choices = space.n if isinstance(space, spaces.Discrete) else space.nvec
    first_choice, count = (np.asarray(values).astype(object) for values in (space.start, n_choices))
    last_choice, max_choice = (
        np.max(first_choice + count - 1),
        min(np.iinfo(dtype).max for dtype in (space.dtype, np.int64)),
    )
    if last_choice > max_choice:
        raise UnsupportedSpaceError(
            f"{name} has {kind} space {format_space(space)}, whose last choice is {last_choice:,}, expected "
            f"at most {max_choice:,}, as {space.dtype} and int64 allow; count from a smaller start"
        )
