"""`gymnasium.vector` environments with known numbers, for each autoreset mode."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from helpers.envs import Countdown

MODES = tuple(AutoresetMode)


class EpisodeInfo(gym.Wrapper[Any, Any, Any, Any]):
    """The info at an episode's end has its number; the info at a start has the number of the new episode."""

    def reset(self, **options: Any) -> Any:
        obs, _ = self.env.reset(**options)
        return obs, {"begins": int(obs[1])}

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            info = {"episode_was": int(self.unwrapped.episode), "is_success": bool(terminated)}  # type: ignore[attr-defined]
        return obs, reward, terminated, truncated, info


def counting(num_envs: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> SyncVectorEnv:
    """Return copies of `Countdown`; each copy has its own episode lengths."""
    lengths = [(2, 3, 1), (4, 1), (1,), (5, 2)]
    makes = [partial(episode_info, lengths[i % 4]) for i in range(num_envs)]
    return SyncVectorEnv(makes, autoreset_mode=mode)


def episode_info(lengths: tuple[int, ...]) -> Any:
    return EpisodeInfo(Countdown(lengths))


def make_counting(num_envs: int) -> SyncVectorEnv:
    """Return the engine that `env=helpers.vectors:make_counting` names."""
    return counting(num_envs)


def make_cartpoles(num_envs: int, mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> SyncVectorEnv:
    """Return Gymnasium's CartPoles."""
    return SyncVectorEnv([lambda: gym.make("CartPole-v1")] * num_envs, autoreset_mode=mode)


def not_vectors(num_envs: int) -> gym.Env[Any, Any]:
    """Return an environment that is not vectorised."""
    return Countdown()
