"""Hindsight for environments with goals (Andrychowicz et al. 2017): what was reached was meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox._core import HindsightConfig, ReplayBuffer
from rlox.envs.parts import PartsCodec
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError, EnvError, UnsupportedSpaceError

__all__ = ["Goals"]

PARTS = ("observation", "achieved_goal", "desired_goal")


@dataclass(frozen=True)
class Goals:
    """Observations as parts, and draws of which some have another goal.

    `env` is asked for `compute_reward(achieved_goal, desired_goal, info)`, goals `[m, ...]`, and where
    it has one for `compute_terminated` with the same arguments, `info` empty: both as in
    Gymnasium-Robotics. A rule that gives one answer for many goals is asked for each of them.
    """

    env: gym.Env[Any, Any]
    codec: PartsCodec
    config: HindsightConfig

    @classmethod
    def of(
        cls, env: gym.Env[Any, Any], codec: ObservationCodec, strategy: str, k: int, name: str
    ) -> Goals:
        """Of an environment, or the error that says what it lacks."""
        lacking = [part for part in PARTS if part not in codec.parts]
        if lacking or not isinstance(codec, PartsCodec):
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
        return {name: (part.dtype.name, (part.dim,)) for name, part in self.codec.codecs.items()}

    def split(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Columns of rows `[n, obs_dim]` with observations as parts."""
        split = {name: self.codec.split(columns[name]) for name in ("obs", "next_obs")}
        return {**columns, **split}

    def sample(
        self, buffer: ReplayBuffer, batch_size: int, count: int, gamma: float
    ) -> dict[str, Any]:
        """`count` batches with rows `[count, B, obs_dim]`; rewards and ends are those of the goals.

        A row that keeps its goal keeps its end. One with another goal ends where `compute_terminated`
        says so, or where it ended without being at its own goal: a fall is one for every goal. Without
        that rule its end stays as well, whatever it was for, as in Stable-Baselines3.
        """
        drawn = buffer.sample(batch_size, n_batches=count, her=self.config)
        terminated = self._terminated(buffer, drawn)
        for name in ("obs", "next_obs"):
            drawn[name] = self.codec.join(drawn[name])
        drawn["discounts"] = np.where(terminated, 0.0, gamma).astype(np.float32)
        return drawn

    def _terminated(self, buffer: ReplayBuffer, drawn: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Whether the state that a step reached ends the episode for the goal that is pursued."""
        stored: NDArray[np.bool_] = drawn["terminated"]
        rule = getattr(self.env.unwrapped, "compute_terminated", None)
        if rule is None:
            return stored
        achieved, desired = (
            part.reshape(stored.size, -1)
            for part in (drawn["next_obs"]["achieved_goal"], drawn["next_obs"]["desired_goal"])
        )
        ended, there = stored.ravel().copy(), self._there(rule, achieved, desired)
        unsure = np.flatnonzero(ended | there)  # the others end for no goal
        if len(unsure):
            was, there, achieved = ended[unsure], there[unsure], achieved[unsure]
            rows = buffer.gather(drawn["indices"].ravel()[unsure])
            own: NDArray[Any] = rows["next_obs"]["desired_goal"].reshape(len(unsure), -1)
            kept = (own == desired[unsure]).all(1)
            for_its_goal = self._there(rule, achieved, own)
            ended[unsure] = np.where(kept, was, there | (was & ~for_its_goal))
        return ended.reshape(stored.shape)

    def _there(
        self, rule: Callable[..., Any], achieved: NDArray[Any], desired: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """What the environment's rule says of goals `[m, ...]`: `[m]`."""
        # copies: the rule may write into them, and the goals are learned from
        ended = np.asarray(rule(achieved.copy(), desired.copy(), {}))
        if ended.size == 1 < len(desired):  # it judges one goal at a time, as `GoalEnv` declares it
            pairs = zip(achieved.copy(), desired.copy(), strict=True)
            ended = np.array([rule(*goals, {}) for goals in pairs])
        if ended.size != len(desired):
            raise EnvError(
                f"compute_terminated of {self.env} returned shape {ended.shape} for "
                f"{len(desired)} goals"
            )
        return ended.astype(bool).ravel()
