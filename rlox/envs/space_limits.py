"""How large a space may be: what a row of its numbers, and a whole number of it, can hold."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlox.envs.spaces import short
from rlox.errors import UnsupportedSpaceError

__all__ = ["require_choices", "require_width"]

WIDEST = 1 << 28  # numbers of a row: a gigabyte of float32


def require_width(kind: str, space: gym.Space[Any], width: int, name: str) -> None:
    """`UnsupportedSpaceError` where a row of the `kind` (observation or action) takes too many numbers."""
    if width > WIDEST:
        raise UnsupportedSpaceError(
            f"{name} has {kind} space {short(space)}, which takes {width:,} numbers a row, expected "
            f"{WIDEST:,} at most; wrap it with gymnasium.wrappers.Transform{kind.title()}"
        )


def require_choices(
    kind: str, space: spaces.Discrete[Any] | spaces.MultiDiscrete, name: str
) -> None:
    """`UnsupportedSpaceError` where the last choice is beyond the space's dtype, and another one in it."""
    counts = space.n if isinstance(space, spaces.Discrete) else space.nvec
    first, count = (np.asarray(numbers).astype(object) for numbers in (space.start, counts))
    last, most = np.max(first + count - 1), min(np.iinfo(t).max for t in (space.dtype, np.int64))
    if last > most:
        raise UnsupportedSpaceError(
            f"{name} has {kind} space {short(space)}, whose last choice is {last:,}, expected {most:,} "
            f"at most, which {space.dtype} and int64 hold; count from a smaller start"
        )
