"""What of a space a policy depends on, in words, which a checkpoint keeps and whoever loads it compares."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.masks import SEEN, MaskedSpace
from rlox.envs.spaces import BYTE, short

__all__ = ["in_words"]


def in_words(space: gym.Space[Any], bounds: bool = False) -> str:
    """A space as text, which is the same of two spaces where a policy cannot tell them apart.

    Only with `bounds` are the bounds of a Box in it, and whether it is of whole numbers: actions are cut to
    them or stretched over them, observations are not. Axes of length 1 do not count, but for those of bytes,
    which may be an image. A mask of actions beside observations does not count: weights are taken over with
    and without.
    """
    if isinstance(space, MaskedSpace):
        return in_words(space[SEEN], bounds)
    if isinstance(space, spaces.Dict):
        inside = (f"{key}: {in_words(part, bounds)}" for key, part in space.spaces.items())
        return f"Dict({', '.join(inside)})"
    if isinstance(space, spaces.Tuple):
        return f"Tuple({', '.join(in_words(part, bounds) for part in space.spaces)})"
    if isinstance(space, spaces.Discrete):
        return f"Discrete({int(space.n)}{_from(space.start)})"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete({space.nvec.tolist()}{_from(space.start)})"
    if isinstance(space, spaces.MultiBinary):
        return f"MultiBinary({_axes(space.shape)})"
    if isinstance(space, spaces.Box):
        shape = space.shape if space.dtype == BYTE else [n for n in space.shape if n != 1]
        return f"Box({_axes(shape)}{_reach(space) if bounds else ''})"
    return short(space)


def _from(start: Any) -> str:
    """The lowest value of integers that do not count from 0."""
    return f", start={np.asarray(start).tolist()}" if np.any(start) else ""


def _axes(shape: Any) -> str:
    return "x".join(map(str, shape)) or "1"


def _reach(box: spaces.Box) -> str:
    whole = "" if box.dtype.kind == "f" else ", whole numbers"
    return f", from {_ends(box.low)} to {_ends(box.high)}{whole}"


def _ends(bound: NDArray[Any]) -> str:
    """Bounds in six digits, so that rounding to float32 is no difference; one number if all are alike."""
    digits = [f"{end:g}" for end in bound.reshape(-1).astype(np.float32).tolist()]
    return digits[0] if len({*digits}) == 1 else f"[{', '.join(digits)}]"
