"""A lock that an agent practically cannot open without action masks."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Lock(gym.Env[Any, Any]):
    """A lock of `length` dials with `n_actions` numbers; two numbers turn each dial.

    One of them leads to the next dial, the other one back to the first. Any other number ends the episode
    with reward 0. Opening the lock gives reward 1.
    """

    def __init__(self, length: int = 5, n_actions: int = 24) -> None:
        self.observation_space = spaces.Box(0, 1, (length + 1,), np.float32)
        self.action_space = spaces.Discrete(n_actions)
        self.length, self.n_actions = length, n_actions
        self.dial = self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Go back to the first dial."""
        super().reset(seed=seed)
        self.dial = self.t = 0
        return self._observation(), {"action_mask": self.action_mask()}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Try a number at the dial."""
        self.t += 1
        if not self.action_mask()[action]:
            return self._observation(), 0.0, True, False, {}
        correct_number = (7 * self.dial + 3) % self.n_actions
        self.dial = self.dial + 1 if action == correct_number else 0
        opened = self.dial == self.length
        truncated = self.t == 5 * self.length and not opened
        return (
            self._observation(),
            float(opened),
            opened,
            truncated,
            {"action_mask": self.action_mask()},
        )

    def action_mask(self) -> NDArray[np.int8]:
        """Return 1 for the numbers that turn the dial, `[n_actions]`."""
        numbers = np.zeros(self.n_actions, np.int8)
        correct_number = (7 * self.dial + 3) % self.n_actions
        numbers[[correct_number, (correct_number + 11) % self.n_actions]] = 1
        return numbers

    def _observation(self) -> NDArray[np.float32]:
        obs = np.zeros(self.length + 1, np.float32)
        obs[self.dial] = 1.0
        return obs


gym.register("Lock-v0", Lock)
