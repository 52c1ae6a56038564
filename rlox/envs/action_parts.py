"""The parts of an action space: from columns of a policy's row to what an environment is given, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.errors import ShapeError

__all__ = [
    "ActionPart",
    "BoxPart",
    "DiscretePart",
    "choice_counts",
    "leaf_spaces",
    "leaf_values",
    "to_nested",
]

Space = gym.Space[Any]


@dataclass(frozen=True, eq=False)
class ActionPart(ABC):
    """A part without parts: `columns` of a row `[..., width]` are its."""

    space: Space
    name: str  # where it is in the space, such as `arm.grip` or `[0]`; empty: it is the whole
    columns: slice

    def to_env(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows `[N, columns]` as the environment takes them, `[N, *shape]` of the space's dtype.

        In memory of its own: an environment may write into its action, the rows are learned from.
        """
        return self.values(rows).reshape(len(rows), *(self.space.shape or ()))

    @abstractmethod
    def values(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows `[N, columns]` as numbers of the space `[N, columns]`, of its dtype, in a new array."""

    @abstractmethod
    def from_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Numbers of the space `[N, columns]` as a policy's row has them."""


@dataclass(frozen=True, eq=False)
class DiscretePart(ActionPart):
    """Of Discrete, MultiDiscrete or MultiBinary: a column for each choice, counted from 0."""

    start: NDArray[np.int64]  # [columns], the environment's number for choice 0

    def values(self, rows: NDArray[Any]) -> NDArray[Any]:
        """The environment's numbers of the choices."""
        shifted = rows.astype(np.int64, copy=False) + self.start  # a new array, also from 0
        return shifted.astype(self.space.dtype, copy=False)

    def from_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Choices from 0, int64; `ShapeError` for numbers that are not whole or no choice."""
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
    """Of a Box: its numbers, cut to the bounds `[columns]`; of whole ones the nearest, half to even."""

    low: NDArray[Any]
    high: NDArray[Any]

    @classmethod
    def of(cls, space: spaces.Box, name: str, columns: slice) -> BoxPart:
        """The part for `space`; where there is no bound, the dtype's own."""
        assert space.dtype is not None
        limit: Any = np.finfo(space.dtype) if space.dtype.kind == "f" else np.iinfo(space.dtype)
        low, high = np.maximum(space.low, limit.min), np.minimum(space.high, limit.max)
        return cls(space, name, columns, low.reshape(-1), high.reshape(-1))

    def values(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Numbers within the bounds."""
        if self.low.dtype.kind == "f":
            clipped: NDArray[Any] = np.clip(rows, self.low, self.high).astype(self.low.dtype, copy=False)
            return clipped
        rounded = np.rint(rows, dtype=np.float64)
        with np.errstate(invalid="ignore"):  # of those outside, which take the bounds
            integers = rounded.astype(self.low.dtype)
        return np.where(rounded <= self.low, self.low, np.where(rounded >= self.high, self.high, integers))

    def from_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """The same numbers, float32."""
        return actions.astype(np.float32)


def choice_counts(space: Space) -> NDArray[np.int64] | None:
    """Among how many numbers each choice of a part is, `[...]`; `None` where it is no choice."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.astype(np.int64)
    if isinstance(space, spaces.MultiBinary):
        return np.full(space.shape, 2, np.int64)
    return None


def leaf_spaces(space: Space, name: str = "") -> Iterator[tuple[str, Space]]:
    """The parts of Dicts and Tuples that have none, with their names, in the order of the space."""
    for key, part in _child_spaces(space, name):
        if isinstance(part, spaces.Dict | spaces.Tuple) and part.spaces:
            yield from leaf_spaces(part, key)
        else:
            yield key, part


def to_nested(space: Space, values: Iterator[Any]) -> Any:
    """A value for each of the `leaf_spaces` in the form of the space: dicts, tuples, or the only value."""
    if isinstance(space, spaces.Dict):
        return {key: to_nested(part, values) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(to_nested(part, values) for part in space.spaces)
    return next(values)


def leaf_values(space: Space, nested_value: Any, label: str) -> Iterator[tuple[str, Space, Any]]:
    """The reverse of `to_nested`: name, space and value of each of the `leaf_spaces`; `None` for an absent
    one.

    `ShapeError` for other forms than that of the space, and for parts that it has not. `label` is what
    is given, for messages.
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
            raise ShapeError(f"{part_label}: {actual}, expected a dict with {list(space.spaces)}")
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
    """The parts of a Dict or a Tuple with their names; of another space itself."""
    if isinstance(space, spaces.Dict):
        yield from ((f"{name}.{k}" if name else str(k), p) for k, p in space.spaces.items())
    elif isinstance(space, spaces.Tuple):
        yield from ((f"{name}[{i}]", part) for i, part in enumerate(space.spaces))
    else:
        yield name, space
