"""Environments that are hard to evaluate in: endless, limited in number, or with NaN."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

# The seed of the first evaluation episode, unless the run sets another.
EVALUATION_SEED = 100_000


class Endless(gym.Env[Any, Any]):
    """Pays 1 a step and never ends."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 1.0, False, False, {}


class Dice(Endless):
    """Episodes of 2 to 9 steps with rewards drawn from the seed; evaluation episodes have `wrong_value`.

    `where` is the place of the wrong value: "reward", "obs", or empty for none.
    """

    def __init__(self, where: str = "", wrong_value: float = math.nan, only: int | None = None) -> None:
        self.where, self.wrong_value, self.only = where, wrong_value, only
        self.steps_left, self.is_wrong = 0, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:  # a training copy is seeded only once
            self.is_wrong = seed == self.only or (
                self.only is None and EVALUATION_SEED <= seed < EVALUATION_SEED + 100
            )
        self.steps_left = int(self.np_random.integers(2, 10))
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps_left -= 1
        is_reward_wrong = self.is_wrong and self.where == "reward"
        reward = self.wrong_value if is_reward_wrong else float(self.np_random.integers(100))
        return self.observe(), reward, self.steps_left <= 0, False, {}

    def observe(self) -> Any:
        obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return np.full(2, self.wrong_value, np.float32) if self.is_wrong and self.where == "obs" else obs


class LimitedInstances(Dice):
    """At most `limit` instances can exist at once, as if each needed a port."""

    alive: ClassVar[int] = 0
    max_alive: ClassVar[int] = 0
    limit: ClassVar[int] = 1

    def __init__(self) -> None:
        if LimitedInstances.alive >= LimitedInstances.limit:
            raise OSError("Address already in use")
        super().__init__()
        LimitedInstances.alive += 1
        LimitedInstances.max_alive = max(LimitedInstances.max_alive, LimitedInstances.alive)

    def close(self) -> None:
        LimitedInstances.alive -= 1
