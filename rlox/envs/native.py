"""Environments whose dynamics run in Rust, behind the common interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import VecEnv
from rlox.envs.base import Finals
from rlox.envs.spaces import ActionCodec, ObservationCodec

__all__ = ["NativeVecEnv"]


class NativeVecEnv:
    """`rlox.VecEnv` as a `VectorEnv`: one call into Rust steps every environment."""

    resume_grade = "exact"

    def __init__(self, env_id: str, n_envs: int, seed: int) -> None:
        self.core = VecEnv(n_envs, seed, env_id)
        self.n_envs = n_envs
        core = self.core
        self.observation_space: gym.Space[Any] = spaces.Box(
            core.observation_low, core.observation_high, dtype=np.float32
        )
        self.action_space: gym.Space[Any] = (
            spaces.Discrete(core.n_actions)
            if core.n_actions is not None
            else spaces.Box(
                np.asarray(core.action_low), np.asarray(core.action_high), dtype=np.float32
            )
        )
        self.observations = ObservationCodec.of(self.observation_space, env_id)
        self.actions = ActionCodec.of(self.action_space, env_id)

    def reset_into(self, obs: NDArray[np.float32]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        obs[:] = self.core.reset_all()

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[np.float32],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment; the bounds of Box actions are applied inside."""
        ended = self.core.step_into(actions, obs, rewards, terminated, truncated)
        return None if ended is None else Finals(*ended)

    def state(self) -> dict[str, Any]:
        """The whole simulation: states, elapsed steps, stream positions."""
        return dict(self.core.snapshot())

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, bit for bit."""
        self.core.restore(dict(state))

    def close(self) -> None:
        """Nothing to release; the memory goes with the object."""
