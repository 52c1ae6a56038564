"""The forms in which masks of actions are told, and what may be wrong with one."""

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
    """Masks of all choices of an action space: 1 where one is allowed, 0 elsewhere.

    A mask has a number for each value of each choice, one choice after another, as a policy's row has
    them: `[n]` of Discrete, `[sum(nvec)]` of MultiDiscrete, `[2 * n]` of MultiBinary (0 and 1 of each). Of a
    Dict or a Tuple it is that of all parts, or a dict or tuple of masks, in which Boxes are left out, or
    `None`.
    """

    actions: ActionCodec

    @property
    def size(self) -> int:
        """Numbers in a mask."""
        return sum(self.actions.choices)

    def row(self, mask: Any, batch_shape: tuple[int, ...] = ()) -> NDArray[np.int8]:
        """A mask, or with `batch_shape` several, as `[*batch_shape, size]`; `ValueError` that says what it is
        instead.
        """
        if batch_shape and isinstance(mask, list) and any(isinstance(m, Mapping | tuple) for m in mask):
            if len(mask) != batch_shape[0]:
                raise ValueError(f"has {len(mask)} masks, expected {batch_shape[0]}")
            return np.stack([self.row(each) for each in mask])
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
        """Of masks `[..., size]` what is said of one that allows nothing of a choice; else no text."""
        choices = self.actions.choices
        starts = np.cumsum((0, *choices[:-1]))
        is_empty = (np.add.reduceat(rows != 0, starts, axis=-1) == 0).reshape(-1, len(choices))
        if not is_empty.any():
            return ""
        name = self.actions.names[int(is_empty.any(0).argmax())]
        return f"allows nothing of {name}" if name else "allows no action"


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
        raise ValueError(f"is of lists of unequal lengths, {expected}") from error
    if array.shape != shape:
        raise ValueError(f"has shape {list(array.shape)}, {expected}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"is of {array.dtype}, {expected}")
    is_invalid = (array != 0) & (array != 1)
    if is_invalid.any():
        raise ValueError(f"has {array[is_invalid][0]}, {expected}")
    return array.astype(np.int8)
