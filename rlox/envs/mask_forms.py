"""The forms in which masks of actions are told, and what may be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.action_parts import counts_of, taken_apart
from rlox.envs.actions import ActionCodec
from rlox.masked import MASKED, is_masked

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

    def row(self, mask: Any, lead: tuple[int, ...] = ()) -> NDArray[np.int8]:
        """A mask, or with `lead` several, as `[*lead, size]`; `ValueError` that says what it is instead."""
        if lead and isinstance(mask, list) and any(isinstance(m, Mapping | tuple) for m in mask):
            if len(mask) != lead[0]:
                raise ValueError(f"has {len(mask)} masks, expected {lead[0]}")
            return np.stack([self.row(each) for each in mask])
        space = self.actions.space
        if not (
            (isinstance(space, spaces.Dict) and isinstance(mask, Mapping))
            or (isinstance(space, spaces.Tuple) and isinstance(mask, tuple))
        ):
            return _of_zeros_and_ones(mask, (*lead, self.size))
        rows = []
        for name, part, value in taken_apart(space, mask, "in"):
            counts = counts_of(part)
            if counts is not None and value is not None:
                rows.append(_of_part(name, value, (*lead, int(counts.sum()))))
            elif counts is not None:
                raise ValueError(f"has no part {name}, expected a mask of each part with choices")
            elif value is not None:
                raise ValueError(f"has a part {name}, which is a Box and has no mask; leave it out")
        return np.concatenate(rows, -1)

    def empty(self, rows: NDArray[np.int8]) -> str:
        """Of masks `[..., size]` what is said of one that allows nothing of a choice; else no text."""
        choices = self.actions.choices
        begins = np.cumsum((0, *choices[:-1]))
        nothing = (np.add.reduceat(rows != 0, begins, axis=-1) == 0).reshape(-1, len(choices))
        if not nothing.any():
            return ""
        name = self.actions.names[int(nothing.any(0).argmax())]
        return f"allows nothing of {name}" if name else "allows no action"


def _of_part(name: str, mask: Any, shape: tuple[int, ...]) -> NDArray[np.int8]:
    try:
        return _of_zeros_and_ones(mask, shape)
    except ValueError as error:
        raise ValueError(f"in part {name} {error}") from error


def _of_zeros_and_ones(mask: Any, shape: tuple[int, ...]) -> NDArray[np.int8]:
    expected = f"expected {list(shape)} of 0 and 1, or of bool"
    if any(map(is_masked, mask)) if isinstance(mask, list | tuple) else is_masked(mask):
        raise ValueError(f"is a masked array: {MASKED}")
    try:
        given = np.asarray(mask)
    except ValueError as error:
        raise ValueError(f"is of lists of unequal lengths, {expected}") from error
    if given.shape != shape:
        raise ValueError(f"has shape {list(given.shape)}, {expected}")
    if given.dtype.kind not in "biuf":
        raise ValueError(f"is of {given.dtype}, {expected}")
    odd = (given != 0) & (given != 1)
    if odd.any():
        raise ValueError(f"has {given[odd][0]}, {expected}")
    return given.astype(np.int8)
