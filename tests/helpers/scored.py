"""Environments that are hard to evaluate in: without an end, alone of their kind, with NaN in them."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

EVALUATED = 100_000  # the seed of the first evaluation episode, unless a run says otherwise


class Endless(gym.Env[Any, Any]):
    """Pays 1 a step, for ever."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(2, np.float32), 1.0, False, False, {}


class Dice(Endless):
    """Episodes of 2 to 9 steps with rewards drawn from the seed; `wrong` in those of an evaluation.

    `where` the number that is none stands: "reward", "obs", or nowhere.
    """

    def __init__(self, where: str = "", wrong: float = math.nan, only: int | None = None) -> None:
        self.where, self.wrong, self.only = where, wrong, only
        self.left, self.hit = 0, False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:  # the copies of training are seeded once
            self.hit = seed == self.only or (
                self.only is None and EVALUATED <= seed < EVALUATED + 100
            )
        self.left = int(self.np_random.integers(2, 10))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        bad = self.hit and self.where == "reward"
        reward = self.wrong if bad else float(self.np_random.integers(100))
        return self._seen(), reward, self.left <= 0, False, {}

    def _seen(self) -> Any:
        seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return np.full(2, self.wrong, np.float32) if self.hit and self.where == "obs" else seen


class Lonely(Dice):
    """Of which `room` can live at once, as of a simulator with a port of its own."""

    alive: ClassVar[int] = 0
    most: ClassVar[int] = 0
    room: ClassVar[int] = 1

    def __init__(self) -> None:
        if Lonely.alive >= Lonely.room:
            raise OSError("Address already in use")
        super().__init__()
        Lonely.alive += 1
        Lonely.most = max(Lonely.most, Lonely.alive)

    def close(self) -> None:
        Lonely.alive -= 1
