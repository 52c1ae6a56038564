"""Between Gymnasium spaces and flat arrays: what a policy sees and what an environment is given.

Observations become float32 vectors (`Box` flattened, `Discrete` one-hot). Policies give `int64`
indices for `Discrete` and unbounded float32 vectors for `Box`; the bounds are applied here, at the
environment only, so that the stored action and its log-probability stay those of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.errors import UnsupportedSpaceError

__all__ = ["ActionCodec", "ObservationCodec"]


@dataclass(frozen=True)
class ObservationCodec:
    """Encodes one observation of a single environment into a row of `[dim]` float32."""

    space: gym.Space[Any]
    dim: int

    @classmethod
    def of(cls, space: gym.Space[Any], name: str = "the environment") -> ObservationCodec:
        """The codec for `space`, or `UnsupportedSpaceError` saying what to wrap."""
        if isinstance(space, spaces.Discrete):
            return cls(space, int(space.n))
        if isinstance(space, spaces.Box) and space.dtype.kind in "fiub":
            if len(space.shape) == 3 and space.dtype == np.uint8:
                raise UnsupportedSpaceError(
                    f"{name} has image observations {space.shape} uint8, expected a vector; "
                    "set env.wrappers=[flatten_observation] to train an MLP on the raw pixels"
                )
            return cls(space, int(np.prod(space.shape, dtype=np.int64)))
        raise UnsupportedSpaceError(
            f"{name} has observation space {_short(space)}, expected Box or Discrete; "
            "set env.wrappers=[flatten_observation] or wrap it with gymnasium.wrappers"
        )

    def encode_into(self, observation: Any, row: NDArray[np.float32]) -> None:
        """Write one observation into `row` `[dim]`."""
        if isinstance(self.space, spaces.Discrete):
            row[:] = self.encode_batch(np.asarray(observation).reshape(1))[0]
        else:
            row[:] = np.asarray(observation).reshape(self.dim)  # never broadcast

    def encode_batch(self, observations: Any) -> NDArray[np.float32]:
        """Several observations `[N, ...]` as float32 `[N, dim]`."""
        batch = np.asarray(observations)
        if isinstance(self.space, spaces.Discrete):
            index = batch.astype(np.int64) - int(self.space.start)
            if (index != batch - int(self.space.start)).any() or not self._inside(index):
                raise ValueError(f"{batch} is not in {self.space}")
            rows = np.zeros((len(batch), self.dim), np.float32)
            rows[np.arange(len(batch)), index] = 1.0
            return rows
        return np.ascontiguousarray(batch.reshape(len(batch), self.dim), dtype=np.float32)

    def _inside(self, index: NDArray[np.int64]) -> bool:
        return bool(((index >= 0) & (index < self.dim)).all())

    def is_single(self, observation: Any) -> bool:
        """Whether `observation` is one observation rather than a batch of them."""
        return np.ndim(observation) == len(self.space.shape or ())


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
            f"{name} has action space {_short(space)}, expected Discrete or a floating-point Box; "
            "wrap it with gymnasium.wrappers.TransformAction"
        )

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


def _short(space: gym.Space[Any]) -> str:
    text = str(space)
    return text if len(text) <= 120 else text[:117] + "..."
