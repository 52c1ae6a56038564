"""Hindsight for environments with goals (Andrychowicz et al. 2017): what was reached was meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox._core import HindsightConfig, ReplayBuffer
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError, EnvError, UnsupportedSpaceError

__all__ = ["Goals"]

PARTS = ("observation", "achieved_goal", "desired_goal")


@dataclass(frozen=True)
class Goals:
    """Observations as parts, and draws of which some have another goal.

    `env` is asked for `compute_reward(achieved_goal, desired_goal, info)`, goals `[m, ...]`, and where
    it has one for `compute_terminated` with the same arguments: both as in Gymnasium-Robotics.
    """

    env: gym.Env[Any, Any]
    codec: ObservationCodec
    config: HindsightConfig

    @classmethod
    def of(
        cls, env: gym.Env[Any, Any], codec: ObservationCodec, strategy: str, k: int, name: str
    ) -> Goals:
        """Of an environment, or the error that says what it lacks."""
        if lacking := [part for part in PARTS if part not in codec.parts]:
            raise UnsupportedSpaceError(
                f"buffer.hindsight={strategy}: {name} has no part '{lacking[0]}' in its observations, "
                f"expected a Dict of {', '.join(PARTS)}"
            )
        reward = getattr(env.unwrapped, "compute_reward", None)
        if not callable(reward):
            raise ConfigError(
                f"buffer.hindsight={strategy}: {name} has no compute_reward(achieved_goal, "
                "desired_goal, info)"
            )
        return cls(env, codec, HindsightConfig(reward, strategy, k))

    @property
    def spaces(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The parts as a buffer declares them."""
        return {name: ("float32", (at.stop - at.start,)) for name, at in self.codec.parts.items()}

    def split(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Columns of rows `[n, obs_dim]` with observations as parts."""
        split = {name: self.codec.split(columns[name]) for name in ("obs", "next_obs")}
        return {**columns, **split}

    def sample(
        self, buffer: ReplayBuffer, batch_size: int, count: int, gamma: float
    ) -> dict[str, Any]:
        """`count` batches with rows `[count, B, obs_dim]`; rewards and ends are those of the goals."""
        drawn = buffer.sample(batch_size, n_batches=count, her=self.config)
        terminated = self._terminated(drawn)
        for name in ("obs", "next_obs"):
            drawn[name] = self.codec.join(drawn[name])
        drawn["discounts"] = np.where(terminated, 0.0, gamma).astype(np.float32)
        return drawn

    def _terminated(self, drawn: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Whether the state that a step reached ends the episode for the goal that is pursued."""
        stored: NDArray[np.bool_] = drawn["terminated"]
        rule = getattr(self.env.unwrapped, "compute_terminated", None)
        if rule is None:
            return stored
        goals = [drawn["next_obs"][name] for name in ("achieved_goal", "desired_goal")]
        ended = np.asarray(rule(*(g.reshape(-1, g.shape[-1]) for g in goals), {}))
        if ended.size not in (1, stored.size):
            raise EnvError(
                f"compute_terminated of {self.env} returned shape {ended.shape} for "
                f"{stored.size} goals"
            )
        return np.broadcast_to(ended.astype(bool).ravel(), (stored.size,)).reshape(stored.shape)
