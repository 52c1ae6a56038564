"""Policies and Gymnasium twins for the native environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from helpers.native_envs import SPECS
from rlox import VecEnv

Policy = Callable[[VecEnv, np.ndarray, np.random.Generator], np.ndarray]


def random_policy(vec: VecEnv, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return uniform choices, and Box actions up to 1.5 times the bounds, which shows clipping."""
    if vec.n_actions is not None:
        return rng.integers(0, vec.n_actions, len(obs))
    return (rng.uniform(-1.5, 1.5, (len(obs), vec.action_dim)) * vec.action_high).astype(np.float32)


def scripted_policy(vec: VecEnv, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return scripted control: balancing, swinging up by adding energy, or rocking out of the valley."""
    return SPECS[vec.env_id].scripted_policy(obs.T)


POLICIES: dict[str, Policy] = {"random": random_policy, "skilled": scripted_policy}


class Twin:
    """Gymnasium's environment, set to any state; the twin itself counts the steps for the limit."""

    def __init__(self, env_id: str) -> None:
        spec = gym.spec(env_id)
        self.env: Any = gym.make(env_id, disable_env_checker=True).unwrapped
        self.env.reset(seed=0)
        self.limit = spec.max_episode_steps
        self.dtype = SPECS[env_id].state_dtype

    def step(
        self, state: np.ndarray, elapsed: int, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool]:
        """Step once from `state` after `elapsed` steps; return observation, reward, flags."""
        self.env.state = state.astype(self.dtype)
        self.env.steps_beyond_terminated = None
        env_action = int(action) if isinstance(self.env.action_space, gym.spaces.Discrete) else action
        obs, reward, terminated, _, _ = self.env.step(env_action)
        return obs, float(reward), terminated, elapsed + 1 >= self.limit

    @property
    def state(self) -> np.ndarray:
        """The present state, float64."""
        return np.asarray(self.env.state, dtype=np.float64)
