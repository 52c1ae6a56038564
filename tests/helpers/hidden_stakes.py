"""A task whose rewards depend mostly on something that the actor does not see and cannot change."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class HiddenStakes(gym.Env[Any, Any]):
    """Each episode has one step: name the signal, 0 or 1, for a reward of 1, plus or minus `size` by chance.

    The sign of `size` is the part `stakes` of the observation, or of the info only (`in_info`). A critic that
    does not see it explains almost nothing of the rewards, whose noise then hides what the actor earns. With
    `box` the action is a number, right below or above 0. `image` shows the signal as an image. `masked` adds
    an action mask that allows all actions.
    """

    def __init__(
        self,
        size: float = 40.0,
        box: bool = False,
        in_info: bool = False,
        image: bool = False,
        masked: bool = False,
    ) -> None:
        self._size, self._in_info, self._image, self._masked = size, in_info, image, masked
        signal = spaces.Box(0, 255, (4, 4, 3), np.uint8) if image else spaces.Box(0, 1, (2,), np.float32)
        parts: dict[str, spaces.Space[Any]] = {"signal": signal}
        if not in_info:
            parts["stakes"] = spaces.Box(-np.inf, np.inf, (), np.float32)
        if masked:
            parts["action_mask"] = spaces.MultiBinary(2)
        self.observation_space = spaces.Dict(parts)
        self.action_space: spaces.Space[Any] = (
            spaces.Box(-1, 1, (1,), np.float32) if box else spaces.Discrete(2)
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._draw()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        is_right = (action > 0 if np.shape(action) == () else action[0] > 0) == self._signal
        reward = float(is_right) + self._size * self._stakes
        obs, info = self._draw()
        return obs, reward, True, False, info

    def save_state(self) -> dict[str, Any]:
        state: Any = self.np_random.bit_generator.state
        return {
            "generator": {**state, "state": {k: str(v) for k, v in state["state"].items()}},
            "now": [int(self._signal), float(self._stakes)],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        numbers = {k: int(v) for k, v in state["generator"]["state"].items()}
        self.np_random.bit_generator.state = {**state["generator"], "state": numbers}
        self._signal, self._stakes = state["now"]

    def _draw(self) -> tuple[Any, dict[str, Any]]:
        self._signal, stakes = self.np_random.integers(2, size=2)
        self._stakes = 2.0 * stakes - 1.0
        obs: dict[str, Any] = {"signal": np.eye(2, dtype=np.float32)[self._signal]}
        if self._image:
            obs["signal"] = np.full((4, 4, 3), 255 * self._signal, np.uint8)
        if not self._in_info:
            obs["stakes"] = np.array(self._stakes, np.float32)
        if self._masked:
            obs["action_mask"] = np.ones(2, np.int8)
        return obs, {"stakes": self._stakes}
