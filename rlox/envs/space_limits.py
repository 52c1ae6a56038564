"""Limits of spaces: the length of a row, and the range of an integer."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlox.envs.spaces import format_space
from rlox.errors import UnsupportedSpaceError

__all__ = ["require_choices_fit", "require_width"]

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
