"""Gymnasium environments that fail on purpose; seeds determine their failures."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from faults.processes import mark_as_hung

Array = NDArray[np.float32]
Stepped = tuple[Any, Any, Any, Any, dict[str, Any]]


def hang() -> None:
    """Mark this process as hung and wait forever."""
    mark_as_hung()
    threading.Event().wait()


class Walk(gym.Env[Any, Any]):
    """A healthy environment: a random walk of three numbers, 20 steps an episode."""

    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.t = 0  # steps of this episode
        self.steps = 0  # steps of all episodes
        self.at = np.zeros(3, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        self.at = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return self.at.copy(), {}

    def step(self, action: Any) -> Stepped:
        self.t += 1
        self.steps += 1
        self.at = np.clip(self.at + self.np_random.normal(0, 0.1, 3), -10, 10).astype(np.float32)
        return self.at.copy(), float(action), self.t >= 20, False, {}


class CrashingEnv(Walk):
    """Fails at each step with the given probabilities, drawn from (seed, first reset seed)."""

    def __init__(
        self,
        p_raise: float = 0.0,
        p_kill: float = 0.0,
        p_hang: float = 0.0,
        p_nan: float = 0.0,
        p_slow: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.limits = np.cumsum([p_raise, p_kill, p_hang, p_nan, p_slow])
        self.seed = seed
        self.faults: np.random.Generator | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if self.faults is None:
            self.faults = np.random.default_rng([self.seed, seed or 0])
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Stepped:
        assert self.faults is not None
        obs, *rest = super().step(action)
        fault = int(np.searchsorted(self.limits, self.faults.random(), side="right"))
        if fault == 0:
            raise RuntimeError(f"a fault on purpose in step {self.steps}")
        if fault == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == 2:
            hang()
        if fault == 3:
            obs[1] = np.nan
        if fault == 4:
            time.sleep(0.2)
        return (obs, *rest)


class NonFiniteEnv(Walk):
    """Returns `value` as one number of the observation or as the reward, in step `at` (1 is the first)."""

    def __init__(self, where: Literal["obs", "reward"], value: float, at: int) -> None:
        super().__init__()
        self.where, self.value, self.when = where, value, at

    def step(self, action: Any) -> Stepped:
        obs, reward, *rest = super().step(action)
        if self.steps == self.when:
            if self.where == "obs":
                obs[2] = self.value
            else:
                reward = self.value
        return (obs, reward, *rest)


LIES = ("shape", "none", "text", "no reward", "nested reward", "four results", "dtype object")


class LyingEnv(Walk):
    """Breaks its contract in step 3, in the way that `lie` names (one of `LIES`)."""

    def __init__(self, lie: str) -> None:
        super().__init__()
        self.lie = lie

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.steps < 3:
            return obs, reward, terminated, truncated, info
        results = {
            "shape": obs[:2],
            "none": None,
            "text": "north",
            "dtype object": np.array([None, 1, 2], object),
        }
        if self.lie == "four results":
            return obs, reward, terminated, info
        odd = {"no reward": None, "nested reward": [1.0, 2.0]}.get(self.lie, reward)
        return results.get(self.lie, obs), odd, terminated, truncated, info
