"""The forms in which environments may give action masks, and the checks of a mask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.action_parts import choice_counts, leaf_values
from rlox.envs.actions import ActionCodec
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = ["MaskForm"]


@dataclass(frozen=True)
class MaskForm:
    """Masks over all choices of an action space: 1 where a choice is allowed, 0 elsewhere.

    A mask has one number for each value of each choice, in the order of a policy's row: `[n]` for Discrete,
    `[sum(nvec)]` for MultiDiscrete, `[2 * n]` for MultiBinary (0 and 1 of each). For a Dict or a Tuple it is
    one array over all parts, or a dict or tuple of masks, in which a Box is left out or `None`.
    """

    actions: ActionCodec

    @property
    def size(self) -> int:
        """Number of entries in a mask."""
        return sum(self.actions.choices)

    def to_rows(self, mask: Any, batch_shape: tuple[int, ...] = ()) -> NDArray[np.int8]:
        """Convert a mask, or several with `batch_shape`, to `[*batch_shape, size]`.

        Raises `ValueError` that says what is wrong with the mask.
        """
        if batch_shape and isinstance(mask, list) and any(isinstance(m, Mapping | tuple) for m in mask):
            if len(mask) != batch_shape[0]:
                raise ValueError(f"has {len(mask)} masks, expected {batch_shape[0]}")
            return np.stack([self.to_rows(each) for each in mask])
        space = self.actions.space
        if not (
            (isinstance(space, spaces.Dict) and isinstance(mask, Mapping))
            or (isinstance(space, spaces.Tuple) and isinstance(mask, tuple))
        ):
            return _zero_one_array(mask, (*batch_shape, self.size))
        rows = []
        for name, part, value in leaf_values(space, mask, "in"):
            counts = choice_counts(part)
            if counts is not None and value is not None:
                rows.append(_part_row(name, value, (*batch_shape, int(counts.sum()))))
            elif counts is not None:
                raise ValueError(f"has no part {name}, expected a mask of each part with choices")
            elif value is not None:
                raise ValueError(f"has a part {name}, which is a Box and has no mask; leave it out")
        return np.concatenate(rows, -1)

    def empty_message(self, rows: NDArray[np.int8]) -> str:
        """Say for masks `[..., size]` which choice has no allowed value; empty if each choice has one."""
        choices = self.actions.choices
        starts = np.cumsum((0, *choices[:-1]))
        is_empty = (np.add.reduceat(rows != 0, starts, axis=-1) == 0).reshape(-1, len(choices))
        if not is_empty.any():
            return ""
        name = self.actions.names[int(is_empty.any(0).argmax())]
        return f"allows no value of {name}" if name else "allows no action"


def _part_row(name: str, mask: Any, shape: tuple[int, ...]) -> NDArray[np.int8]:
    try:
        return _zero_one_array(mask, shape)
    except ValueError as error:
        raise ValueError(f"in part {name} {error}") from error


def _zero_one_array(mask: Any, shape: tuple[int, ...]) -> NDArray[np.int8]:
    expected = f"expected {list(shape)} of 0 and 1, or of bool"
    if any(map(is_masked, mask)) if isinstance(mask, list | tuple) else is_masked(mask):
        raise ValueError(f"is a masked array: {MASKED_MESSAGE}")
    try:
        array = np.asarray(mask)
    except ValueError as error:
        raise ValueError(f"has lists of unequal lengths, {expected}") from error
    if array.shape != shape:
        raise ValueError(f"has shape {list(array.shape)}, {expected}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"has dtype {array.dtype}, {expected}")
    is_invalid = (array != 0) & (array != 1)
    if is_invalid.any():
        raise ValueError(f"has {array[is_invalid][0]}, {expected}")
    return array.astype(np.int8)
