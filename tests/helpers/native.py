"""Policies and Gymnasium twins for the native environments."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np

from rlox import VecEnv

Policy = Callable[[VecEnv, np.ndarray, np.random.Generator], np.ndarray]


def random_policy(vec: VecEnv, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Uniform choices; Box actions up to one and a half times the bounds, so that clipping is seen."""
    if vec.n_actions is not None:
        return rng.integers(0, vec.n_actions, len(obs))
    return (rng.uniform(-1.5, 1.5, (len(obs), vec.action_dim)) * vec.action_high).astype(np.float32)


def skilled_policy(vec: VecEnv, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scripted control: balances, swings up by adding energy, or rocks out of the valley."""
    if vec.env_id == "CartPole-v1":
        x, x_dot, angle, angle_dot = obs.T
        return (angle + 0.3 * angle_dot + 0.02 * x + 0.06 * x_dot > 0).astype(np.int64)
    if vec.env_id == "Acrobot-v1":
        return np.where(obs[:, 5] > 0, 2, 0)
    if vec.env_id == "MountainCar-v0":
        return np.where(obs[:, 1] >= 0, 2, 0)
    if vec.env_id == "MountainCarContinuous-v0":
        return np.where(obs[:, 1:] >= 0, 1, -1).astype(np.float32)
    cos, sin, speed = obs.T
    energy = 0.5 * speed**2 + 15.0 * (cos - 1.0)
    pump = np.where(energy < 0.0, 2.0, -2.0) * np.sign(speed + 1e-9)
    balance = -10.0 * np.arctan2(sin, cos) - 2.0 * speed
    torque = np.where(cos > 0.9, balance, pump)
    return torque[:, None].astype(np.float32)


POLICIES: dict[str, Policy] = {"random": random_policy, "skilled": skilled_policy}


class Twin:
    """Gymnasium's environment, put into any state: the limit on steps is counted here."""

    def __init__(self, env_id: str) -> None:
        spec = gym.spec(env_id)
        self.env = gym.make(env_id, disable_env_checker=True).unwrapped
        self.env.reset(seed=0)
        self.limit = spec.max_episode_steps
        # Gymnasium keeps the state of this one in float32, and NumPy's rules follow from that.
        self.dtype = np.float32 if env_id == "MountainCarContinuous-v0" else np.float64

    def step(
        self, state: np.ndarray, elapsed: int, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool]:
        """One step from `state` after `elapsed` steps: observation, reward, flags."""
        self.env.state = state.astype(self.dtype)
        self.env.steps_beyond_terminated = None
        given = int(action) if np.ndim(action) == 0 else action
        obs, reward, terminated, _, _ = self.env.step(given)
        return obs, float(reward), terminated, elapsed + 1 >= self.limit

    @property
    def state(self) -> np.ndarray:
        """The state it is in, float64."""
        return np.asarray(self.env.state, dtype=np.float64)
