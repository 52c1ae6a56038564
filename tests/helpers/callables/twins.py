"""A batch of Gymnasium environments with the seeding, time limits and autoreset of `VecEnv`."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np

from helpers.callables.engine import Approximate
from helpers.callables.streams import draws
from helpers.native import Twin
from helpers.native_envs import SPECS


@functools.cache
def twin_of(env_id: str) -> Twin:
    return Twin(env_id)


def gymnasium_env(env_id: str) -> gym.Env[Any, Any]:
    return twin_of(env_id).env


class Twins:
    """States `[n, state_dim]`, elapsed steps and stream positions `[n]` after the first reset."""

    def __init__(self, env_id: str, keys: list[tuple[int, int]], precision: str = "f64") -> None:
        self.env_id, self.keys, self.n, self.precision = env_id, keys, len(keys), precision
        self.spec = SPECS[env_id]
        self.limit = gym.spec(env_id).max_episode_steps
        self.positions = np.zeros(self.n, np.uint64)
        self.elapsed = np.zeros(self.n, np.int64)
        self.state = np.stack([self.start(row) for row in range(self.n)])

    def near(self, result: Any) -> Approximate:
        """Return the result with the deviation that the documentation of the environments states."""
        single = max(self.spec.deviation, self.spec.reward_deviation)
        return Approximate(result, single if self.precision == "f32" else 1e-10)

    def start(self, row: int) -> np.ndarray:
        """Return the first state of the next episode."""
        bounds, (seed, index) = self.spec.starts, self.keys[row]
        count, at = sum(b is not None for b in bounds), int(self.positions[row])
        numbers = iter(draws(count, seed, "env", index, at))
        self.positions[row] += np.uint64(2 * count)
        self.elapsed[row] = 0
        state = [
            0.0 if b is None else b[0] + (b[1] - b[0]) * ((next(numbers) >> 11) * 2.0**-53) for b in bounds
        ]
        if self.spec.float32_start:
            return np.array(state, np.float32).astype(np.float64)
        return self.round_state(np.array(state))

    def round_state(self, state: np.ndarray) -> np.ndarray:
        """Return the state in the precision in which it is kept."""
        if self.precision == "f32" or self.spec.float32_state:
            return state.astype(np.float32).astype(np.float64)
        return state

    def reset(self) -> np.ndarray:
        self.state = np.stack([self.start(row) for row in range(self.n)])
        return self.observe()

    def observe(self) -> np.ndarray:
        return self.spec.observation(self.state)

    def step(self, actions: np.ndarray) -> dict[str, np.ndarray]:
        rewards, flags = np.zeros(self.n), np.zeros((2, self.n), bool)
        reached = np.zeros_like(self.state)
        for row in range(self.n):
            reached[row], rewards[row], flags[0, row] = self.advance(row, actions[row])
        self.elapsed += 1
        flags[1] = self.elapsed >= self.limit
        mask = flags.any(axis=0)
        reached = self.round_state(reached)
        self.state = reached.copy()
        for row in np.flatnonzero(mask):
            self.state[row] = self.start(row)
        return {
            "obs": self.observe(),
            "rewards": rewards,
            "terminated": flags[0],
            "truncated": flags[1],
            "final_obs": self.spec.observation(reached),
            "final_mask": mask,
        }

    def advance(self, row: int, action: Any) -> tuple[np.ndarray, float, bool]:
        twin = twin_of(self.env_id)
        _, reward, terminated, _ = twin.step(self.state[row], 0, action)
        return twin.state, reward, bool(terminated)
