"""`gymnasium.vector` environments whose every number a test knows, in each way of resetting."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from helpers.envs import Countdown

MODES = tuple(AutoresetMode)


class EpisodeInfo(gym.Wrapper[Any, Any, Any, Any]):
    """Says at the end of an episode which one it was, and at the start of one which it will be."""

    def reset(self, **options: Any) -> Any:
        obs, _ = self.env.reset(**options)
        return obs, {"begins": int(obs[1])}

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            info = {"episode_was": int(self.unwrapped.episode), "is_success": bool(terminated)}  # type: ignore[attr-defined]
        return obs, reward, terminated, truncated, info


def counting(num_envs: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> SyncVectorEnv:
    """Copies of `Countdown`; copy i has episodes of its own lengths."""
    lengths = [(2, 3, 1), (4, 1), (1,), (5, 2)]
    makes = [partial(episode_info, lengths[i % 4]) for i in range(num_envs)]
    return SyncVectorEnv(makes, autoreset_mode=mode)


def episode_info(lengths: tuple[int, ...]) -> Any:
    return EpisodeInfo(Countdown(lengths))


def make_counting(num_envs: int) -> SyncVectorEnv:
    """As `env=helpers.vectors:make_counting` names it."""
    return counting(num_envs)


def make_cartpoles(num_envs: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> SyncVectorEnv:
    """CartPoles of Gymnasium's."""
    return SyncVectorEnv([lambda: gym.make("CartPole-v1")] * num_envs, autoreset_mode=mode)


def not_vectors(num_envs: int) -> gym.Env[Any, Any]:
    """What is no vectorised environment."""
    return Countdown()
