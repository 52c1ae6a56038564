"""Between Gymnasium spaces and flat arrays: what an environment is given.

Policies give `int64` indices for `Discrete` and float32 vectors for `Box`, unbounded ones or ones in
[-1, 1]; the bounds are applied here, at the environment only, so that the stored action and its
log-probability stay those of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.spaces import short
from rlox.errors import UnsupportedSpaceError

__all__ = ["ActionCodec", "UnitCodec"]


@dataclass(frozen=True)
class ActionCodec:
    """What a policy's actions look like and how they reach the environment."""

    space: gym.Space[Any]
    discrete: bool
    size: int  # number of choices, or dimensions of the vector

    @classmethod
    def of(cls, space: gym.Space[Any], name: str = "the environment") -> ActionCodec:
        """The codec for `space`, or `UnsupportedSpaceError`."""
        if isinstance(space, spaces.Discrete):
            return cls(space, True, int(space.n))
        if isinstance(space, spaces.Box) and space.dtype.kind == "f":
            return cls(space, False, int(np.prod(space.shape, dtype=np.int64)))
        raise UnsupportedSpaceError(
            f"{name} has action space {short(space)}, expected Discrete or a floating-point Box; "
            "wrap it with gymnasium.wrappers.TransformAction"
        )

    @property
    def row_bytes(self) -> int:
        """Memory of one action of a policy."""
        return 8 if self.discrete else 4 * self.size

    @property
    def start(self) -> int:
        """The environment's number for choice 0; 0 for a vector."""
        return int(self.space.start) if isinstance(self.space, spaces.Discrete) else 0

    def to_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Policy actions `[N]` or `[N, size]` as the environment takes them, clipped to its bounds."""
        if isinstance(self.space, spaces.Discrete):
            return actions + self.start if self.start else actions
        assert isinstance(self.space, spaces.Box)
        shaped = actions.reshape(len(actions), *self.space.shape)
        clipped = np.clip(shaped, self.space.low, self.space.high)
        bounded: NDArray[Any] = clipped.astype(self.space.dtype, copy=False)
        return bounded

    def unit(self, name: str, algo: str) -> UnitCodec:
        """Of a Box the codec of policies that act in [-1, 1]; `UnsupportedSpaceError` without bounds."""
        assert isinstance(self.space, spaces.Box)
        low, high = self.space.low, self.space.high
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise UnsupportedSpaceError(
                f"{algo} needs Box actions with finite bounds, {name} has {short(self.space)}; wrap it "
                "with gymnasium.wrappers.TransformAction"
            )
        with np.errstate(over="ignore"):
            narrow = np.isfinite(high - low).all()
        if not narrow:
            raise UnsupportedSpaceError(
                f"{algo} stretches [-1, 1] over the Box of actions, {name} has {short(self.space)}, whose "
                f"width is not finite in {self.space.dtype}; wrap it with gymnasium.wrappers.RescaleAction"
            )
        return UnitCodec(self.space, self.discrete, self.size)


@dataclass(frozen=True)
class UnitCodec(ActionCodec):
    """Actions in [-1, 1] that stand for the whole of a Box: -1 is its low end, 1 its high end."""

    def to_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Actions `[N, size]` in [-1, 1] as the environment takes them."""
        assert isinstance(self.space, spaces.Box)
        low, high = self.space.low.reshape(-1), self.space.high.reshape(-1)
        return super().to_env(low + 0.5 * (actions + 1.0) * (high - low))
