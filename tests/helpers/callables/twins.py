"""A batch of Gymnasium environments with the seeding, time limits and autoreset of `VecEnv`."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym
import numpy as np

from helpers.callables.engine import Near
from helpers.callables.streams import draws

PI = float(np.pi)
# Bounds of the start state's variables; a variable without bounds starts at 0 and costs no draw.
STARTS: dict[str, list[tuple[float, float] | None]] = {
    "Acrobot-v1": [(-0.1, 0.1)] * 4,
    "CartPole-v1": [(-0.05, 0.05)] * 4,
    "MountainCar-v0": [(-0.6, -0.4), None],
    "MountainCarContinuous-v0": [(-0.6, -0.4), None],
    "Pendulum-v1": [(-PI, PI), (-1.0, 1.0)],
}
ROUNDED = {"Acrobot-v1", "MountainCarContinuous-v0"}  # Gymnasium keeps the start as float32
# One float32 step, relative to the largest number or 1 (rust/rlox-core/src/env); Pendulum: reward.
SINGLE = {
    "Acrobot-v1": 1e-5,
    "CartPole-v1": 3e-7,
    "MountainCar-v0": 3e-7,
    "MountainCarContinuous-v0": 3e-7,
    "Pendulum-v1": 1e-5,
}


@functools.cache
def gymnasium_env(env_id: str) -> gym.Env[Any, Any]:
    env = gym.make(env_id).unwrapped
    env.reset(seed=0)
    return env


def observation(env_id: str, state: np.ndarray) -> np.ndarray:
    """float32 `[n, obs_dim]` of states `[n, state_dim]`."""
    if env_id == "Pendulum-v1":
        theta, speed = state.T
        columns = [np.cos(theta), np.sin(theta), speed]
    elif env_id == "Acrobot-v1":
        first, second, *speeds = state.T
        columns = [np.cos(first), np.sin(first), np.cos(second), np.sin(second), *speeds]
    else:
        columns = list(state.T)
    return np.stack(columns, axis=1).astype(np.float32)


class Twins:
    """States `[n, state_dim]`, elapsed steps and stream positions `[n]` after the first reset."""

    def __init__(self, env_id: str, keys: list[tuple[int, int]], precision: str = "f64") -> None:
        self.env_id, self.keys, self.n, self.precision = env_id, keys, len(keys), precision
        self.limit = gym.spec(env_id).max_episode_steps
        self.positions = np.zeros(self.n, np.uint64)
        self.elapsed = np.zeros(self.n, np.int64)
        self.state = np.stack([self.start(row) for row in range(self.n)])

    def near(self, result: Any) -> Near:
        """The result with the deviation that the documentation of the environments states."""
        return Near(result, SINGLE[self.env_id] if self.precision == "f32" else 1e-10)

    def start(self, row: int) -> np.ndarray:
        """The next episode's first state."""
        bounds, (seed, index) = STARTS[self.env_id], self.keys[row]
        count, at = sum(b is not None for b in bounds), int(self.positions[row])
        numbers = iter(draws(count, seed, "env", index, at))
        self.positions[row] += np.uint64(2 * count)
        self.elapsed[row] = 0
        state = [
            0.0 if b is None else b[0] + (b[1] - b[0]) * ((next(numbers) >> 11) * 2.0**-53)
            for b in bounds
        ]
        if self.env_id in ROUNDED:
            return np.array(state, np.float32).astype(np.float64)
        return self.kept(np.array(state))

    def kept(self, state: np.ndarray) -> np.ndarray:
        """The state in the precision in which it is kept."""
        if self.precision == "f32" or self.env_id == "MountainCarContinuous-v0":
            return state.astype(np.float32).astype(np.float64)
        return state

    def reset(self) -> np.ndarray:
        self.state = np.stack([self.start(row) for row in range(self.n)])
        return self.observe()

    def observe(self) -> np.ndarray:
        return observation(self.env_id, self.state)

    def step(self, actions: np.ndarray) -> dict[str, np.ndarray]:
        rewards, flags = np.zeros(self.n), np.zeros((2, self.n), bool)
        reached = np.zeros_like(self.state)
        for row in range(self.n):
            reached[row], rewards[row], flags[0, row] = self.advance(row, actions[row])
        self.elapsed += 1
        flags[1] = self.elapsed >= self.limit
        mask = flags.any(axis=0)
        reached = self.kept(reached)
        self.state = reached.copy()
        for row in np.flatnonzero(mask):
            self.state[row] = self.start(row)
        return {
            "obs": self.observe(),
            "rewards": rewards,
            "terminated": flags[0],
            "truncated": flags[1],
            "final_obs": observation(self.env_id, reached),
            "final_mask": mask,
        }

    def advance(self, row: int, action: Any) -> tuple[np.ndarray, float, bool]:
        env: Any = gymnasium_env(self.env_id)
        kind = np.float32 if self.env_id == "MountainCarContinuous-v0" else np.float64
        env.state = self.state[row].astype(kind)
        if self.env_id == "CartPole-v1":
            env.steps_beyond_terminated = None
        discrete = isinstance(env.action_space, gym.spaces.Discrete)
        _, reward, terminated, _, _ = env.step(int(action) if discrete else action)
        return np.asarray(env.state, np.float64), float(reward), bool(terminated)
