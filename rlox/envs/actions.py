"""Action codecs: from a policy's actions to those of an environment.

A policy's action is a row. For `Discrete` it is one `int64`, for a `Box` a float32 vector, unbounded or in
[-1, 1]. For other spaces the row has the choices of all parts, counted from 0, then the numbers of their
Boxes. It is int64, or float32 if there is a Box; float32 holds integers up to 2^24 exactly. Bounds are
applied only here, for the environment, so that the stored action and its log-probability stay those of the
policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.action_parts import (
    ActionPart,
    BoxPart,
    DiscretePart,
    choice_counts,
    leaf_spaces,
    leaf_values,
    require_choices_fit,
    require_width,
    to_nested,
)
from rlox.envs.spaces import format_space
from rlox.errors import ConfigError, ShapeError, UnsupportedSpaceError
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = ["TOLERANCE", "ActionCodec", "UnitCodec"]

TOLERANCE = 1e-5  # how far rounding may move a bound, or a number beyond it, relative to high - low
MAX_EXACT_FLOAT32 = 1 << 24  # float32 holds all integers up to here


@dataclass(frozen=True, eq=False)
class ActionCodec:
    """The form of a policy's actions, and their conversion to environment actions.

    A row has one column for each choice, then `box_dim` numbers. An entry of `choices` is the number of
    values of that choice.
    """

    space: gym.Space[Any]
    parts: tuple[ActionPart, ...]
    choices: tuple[int, ...]
    box_dim: int

    @classmethod
    def of(cls, space: gym.Space[Any], name: str = "the environment") -> ActionCodec:
        """Make the codec for `space`; `UnsupportedSpaceError` names the part that does not fit."""
        leaf_pairs = list(leaf_spaces(space))
        counts_of_leaves = [
            _require_choice_counts(name, leaf_name, leaf_space) for leaf_name, leaf_space in leaf_pairs
        ]
        choices = tuple(int(n) for counts in counts_of_leaves if counts is not None for n in counts.flat)
        parts: list[ActionPart] = []
        choice_offset, box_offset = 0, 0
        for leaf_name, leaf_space in leaf_pairs:
            size = int(np.prod(leaf_space.shape or (), dtype=np.int64))
            if isinstance(leaf_space, spaces.Box):
                first = len(choices) + box_offset
                parts.append(BoxPart.of(leaf_space, leaf_name, slice(first, first + size)))
                box_offset += size
            else:
                parts.append(
                    DiscretePart(
                        leaf_space,
                        leaf_name,
                        slice(choice_offset, choice_offset + size),
                        _first_values(leaf_space),
                    )
                )
                choice_offset += size
        if not choices and not box_offset:
            raise UnsupportedSpaceError(
                f"{name} has action space {format_space(space)}, which has nothing to choose, expected at "
                "least one number or choice; wrap it with gymnasium.wrappers.TransformAction"
            )
        require_width("action", space, sum(choices) + box_offset, name)
        if box_offset and max(choices, default=0) > MAX_EXACT_FLOAT32:
            raise UnsupportedSpaceError(
                f"{name} has action space {format_space(space)} with {max(choices)} choices next to a Box, "
                f"expected at most {MAX_EXACT_FLOAT32}, as float32 rounds larger integers; wrap it with "
                "gymnasium.wrappers.TransformAction"
            )
        return cls(space, tuple(parts), choices, box_offset)

    @property
    def is_discrete(self) -> bool:
        """Whether an action is one choice: a number, not a row of numbers."""
        return isinstance(self.space, spaces.Discrete)

    @property
    def kind(self) -> str:
        """`Discrete`; `Box` for one or several Boxes; `factored` for other spaces with choices."""
        return "Discrete" if self.is_discrete else "factored" if self.choices else "Box"

    @property
    def size(self) -> int:
        """Number of network outputs for an action: one for each value of each choice, and for each number."""
        return sum(self.choices) + self.box_dim

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action of a policy."""
        return () if self.is_discrete else (len(self.choices) + self.box_dim,)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of a policy's actions."""
        return np.dtype(np.float32 if self.box_dim else np.int64)

    @property
    def row_bytes(self) -> int:
        """Size of one action of a policy in bytes."""
        return self.dtype.itemsize * (len(self.choices) + self.box_dim)

    @property
    def scoring_width(self) -> int:
        """Number of values needed to score an action, if all choices are padded to the largest."""
        return len(self.choices) * max(self.choices, default=0) + self.box_dim

    @property
    def names(self) -> tuple[str, ...]:
        """Path of each choice in the space, such as `arm.grip` or `[0, 1]`; empty for the whole space."""
        return tuple(
            f"{part.name}{list(at) if at else ''}"
            for part in self.parts
            if isinstance(part, DiscretePart)
            for at in np.ndindex(part.space.shape or ())
        )

    def to_env(self, actions: NDArray[Any]) -> Any:
        """Convert policy actions `[N, *shape]` to environment actions, clipped to the bounds.

        The result has the form and dtypes of the space with a batch axis, as in Gymnasium's vector
        environments: `[N, *shape]`, a dict of these for a Dict, a tuple for a Tuple. `unbatch` gives single
        actions.
        """
        rows = actions.reshape(len(actions), len(self.choices) + self.box_dim)  # without -1, as N may be 0
        return to_nested(self.space, (part.to_env(rows[:, part.columns]) for part in self.parts))

    def unbatch(self, actions: Any) -> Sequence[Any]:
        """Convert the result of `to_env` to a sequence with one action per environment."""
        return _unbatch(self.space, actions)

    def from_env(self, actions: Any, n: int) -> NDArray[Any]:
        """Convert `n` environment actions, as `to_env` returns them, to policy actions `[n, *shape]`.

        Raises `ShapeError` for actions of another form. Bounds are not checked.
        """
        rows = np.empty((n, len(self.choices) + self.box_dim), self.dtype)
        leaves = leaf_values(self.space, actions, "actions")
        for part, (name, _, values) in zip(self.parts, leaves, strict=True):
            array = _require_numbers(name, values, (n, *(part.space.shape or ())))
            rows[:, part.columns] = part.from_env(array.reshape(n, -1))
        return rows.reshape(n, *self.shape)

    def unit_codec(self, name: str, algo: str) -> UnitCodec:
        """Make the codec for Box actions in [-1, 1]; `UnsupportedSpaceError` for infinite bounds or width."""
        assert not self.choices
        low, high = _bounds(self.space)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise UnsupportedSpaceError(
                f"{algo} needs Box actions with finite bounds, but {name} has {format_space(self.space)}; "
                "wrap it with gymnasium.wrappers.TransformAction"
            )
        with np.errstate(over="ignore"):
            has_finite_width = np.isfinite(high - low).all()
        if not has_finite_width:
            raise UnsupportedSpaceError(
                f"{algo} scales [-1, 1] to the Box of actions, but {name} has {format_space(self.space)}, "
                f"whose width is not finite in {low.dtype}; wrap it with gymnasium.wrappers.RescaleAction"
            )
        return UnitCodec(self.space, self.parts, self.choices, self.box_dim, low, high)


@dataclass(frozen=True, eq=False)
class UnitCodec(ActionCodec):
    """Maps actions in [-1, 1] to the full range of Boxes: -1 is the lower bound, 1 the upper bound."""

    low: NDArray[Any]  # [size]
    high: NDArray[Any]

    def require_bounds(self, low: Any, high: Any) -> None:
        """Raise `ConfigError` unless `low` and `high`, `[size]` each, equal the bounds up to rounding."""
        trained_bounds = np.array([np.ravel(low), np.ravel(high)], np.float64)
        env_bounds, tolerance = np.stack([self.low, self.high]), TOLERANCE * (self.high - self.low)
        if (
            trained_bounds.shape != env_bounds.shape
            or not (np.abs(trained_bounds - env_bounds) <= tolerance).all()
        ):
            raise ConfigError(
                f"its policy learned actions {_bounds_text(*trained_bounds)}, but those of the environment "
                f"are {self.bounds_text}; use an environment with the policy's bounds, or train the policy "
                "with the environment's (env=..., or algo.act_high without an environment)"
            )

    @property
    def bounds_text(self) -> str:
        """The bounds as text."""
        return _bounds_text(self.low, self.high)

    def to_bounds(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Map actions `[N, size]` in [-1, 1] to rows `[N, size]` within the environment's bounds."""
        rows = self.low + 0.5 * (actions + 1.0) * (self.high - self.low)
        clipped: NDArray[Any] = np.clip(rows, self.low, self.high)
        return clipped

    def to_unit(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Map rows `[..., size]` within the environment's bounds to [-1, 1]: the inverse of `to_bounds`.

        A number whose two bounds are equal becomes 0.
        """
        width = self.high - self.low
        is_constant = width == 0
        scaled = 2.0 * (rows - self.low) / np.where(is_constant, 1.0, width) - ~is_constant
        clipped: NDArray[np.float32] = np.clip(scaled, -1.0, 1.0).astype(np.float32)
        return clipped

    def to_env(self, actions: NDArray[Any]) -> Any:
        """Convert actions `[N, size]` in [-1, 1] to environment actions."""
        return super().to_env(self.to_bounds(actions))


def _require_choice_counts(name: str, leaf_name: str, space: gym.Space[Any]) -> NDArray[np.int64] | None:
    """Count the values of each choice; `None` for a Box, `UnsupportedSpaceError` for other spaces."""
    label = f"{name}, part {leaf_name}," if leaf_name else name
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        require_choices_fit("action", space, label)
    elif isinstance(space, spaces.MultiBinary):
        require_width("action", space, prod(space.shape), label)
    counts = choice_counts(space)
    if counts is not None:
        return counts
    if isinstance(space, spaces.Box) and space.dtype.kind in "fiu":
        return None
    raise UnsupportedSpaceError(
        f"{label} has action space {format_space(space)}, expected Discrete, MultiDiscrete, MultiBinary, a "
        "Box of numbers, or a Dict or Tuple of them; wrap it with gymnasium.wrappers.TransformAction"
    )


def _require_numbers(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Convert a part's actions to an array with as many numbers as `shape`; else `ShapeError`."""
    label = f"actions {name}".strip()
    if values is None:
        raise ShapeError(f"{label} are missing, expected {shape}")
    if is_masked(values):
        raise ShapeError(f"{label}: {MASKED_MESSAGE}")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"{label} are of unequal lengths, expected {shape}") from error
    if array.dtype.kind not in "biuf" or array.size != np.prod(shape):
        raise ShapeError(f"{label} have shape {array.shape}, {array.dtype}, expected {shape}")
    return array


def _first_values(space: gym.Space[Any]) -> NDArray[np.int64]:
    """Return the environment's number for choice 0 of each column, `[columns]`."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.asarray(space.start).astype(np.int64).reshape(-1)
    return np.zeros(int(np.prod(space.shape or (), dtype=np.int64)), np.int64)


def _bounds(space: gym.Space[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the bounds of all Boxes, `[size]` each, as floating-point numbers."""

    def concat_bounds(ends: Iterator[NDArray[Any]]) -> NDArray[Any]:
        flat = [end.reshape(-1) for end in ends]
        float_bounds = [end if end.dtype.kind == "f" else end.astype(np.float64) for end in flat]
        return np.concatenate(float_bounds)

    boxes = [box for _, box in leaf_spaces(space) if isinstance(box, spaces.Box)]
    return concat_bounds(box.low for box in boxes), concat_bounds(box.high for box in boxes)


def _bounds_text(*ends: NDArray[Any]) -> str:
    """Format bounds `[size]`; a bound that is the same for all numbers is written once."""
    low, high = (f"{end[0]:g}" if np.ptp(end) == 0 else str(end.tolist()) for end in ends)
    return f"from {low} to {high}"


def _unbatch(space: gym.Space[Any], actions: Any) -> Sequence[Any]:
    if isinstance(space, spaces.Dict):
        columns = [_unbatch(part, actions[key]) for key, part in space.spaces.items()]
        return [dict(zip(space.spaces, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(space, spaces.Tuple):
        columns = [_unbatch(part, actions[i]) for i, part in enumerate(space.spaces)]
        return list(zip(*columns, strict=True))
    if isinstance(space, spaces.Box) and not space.shape:
        return [actions[i, ...] for i in range(len(actions))]  # zero-dimensional arrays
    rows: Sequence[Any] = actions
    return rows
