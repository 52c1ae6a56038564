"""A lock that turns out of reach without masks of its actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Lock(gym.Env[Any, Any]):
    """A lock of `length` dials with `n_actions` numbers; at each dial two turn, one of them on.

    The other one begins again; a number that does not turn ends the episode with 0. Opened, it pays 1.
    """

    def __init__(self, length: int = 5, n_actions: int = 24) -> None:
        self.observation_space = spaces.Box(0, 1, (length + 1,), np.float32)
        self.action_space = spaces.Discrete(n_actions)
        self.length, self.n = length, n_actions
        self.place = self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Back to the first dial."""
        super().reset(seed=seed)
        self.place = self.t = 0
        return self._observed(), {"action_mask": self.turning()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Try a number at the dial."""
        self.t += 1
        if not self.turning()[action]:
            return self._observed(), 0.0, True, False, {}
        right = (7 * self.place + 3) % self.n
        self.place = self.place + 1 if action == right else 0
        opened = self.place == self.length
        cut = self.t == 5 * self.length and not opened
        return self._observed(), float(opened), opened, cut, {"action_mask": self.turning()}

    def turning(self) -> NDArray[np.int8]:
        """1 for the numbers that turn the dial, `[n_actions]`."""
        numbers = np.zeros(self.n, np.int8)
        right = (7 * self.place + 3) % self.n
        numbers[[right, (right + 11) % self.n]] = 1
        return numbers

    def _observed(self) -> NDArray[np.float32]:
        seen = np.zeros(self.length + 1, np.float32)
        seen[self.place] = 1.0
        return seen


gym.register("Lock-v0", Lock)
