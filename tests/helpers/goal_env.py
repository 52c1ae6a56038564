"""An environment with Dict observations, a goal and infos, which reuses all its objects."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from helpers.envs import Countdown


class GoalLine(gym.Env[Any, Any]):
    """A walk on a line to a goal within eight steps.

    The arrays of an observation and the dict of an info are the same objects at every step and reset, so that
    a reference without a copy changes. The info has `is_success` at the end.
    """

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            {
                "desired_goal": spaces.Box(-9, 9, (1,), np.float32),
                "achieved_goal": spaces.Box(-9, 9, (1,), np.float32),
                "phase": spaces.Discrete(3, start=1),
                "observation": spaces.Box(-9, 9, (2, 2), np.float32),
            }
        )
        self.action_space = spaces.Discrete(2)
        self.obs: dict[str, Any] = {
            "desired_goal": np.zeros(1, np.float32),
            "achieved_goal": np.zeros(1, np.float32),
            "phase": 1,
            "observation": np.zeros((2, 2), np.float32),
        }
        self.info: dict[str, Any] = {}
        self.place = self.t = self.episodes = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.t = 0, 0
        self.episodes += 1
        self.obs["desired_goal"][0] = self.np_random.choice([-3, -2, 2, 3])
        self.info.clear()
        self.info["episode"] = self.episodes
        return self.observe(), self.info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place += 2 * int(action) - 1
        self.t += 1
        reached = bool(self.place == self.obs["desired_goal"][0])
        out_of_time = self.t == 8 and not reached
        # Its length differs from step to step, and Gymnasium's vectors cannot join that.
        self.info["path"] = np.arange(self.t)
        if reached or out_of_time:
            self.info["is_success"] = reached
        return self.observe(), float(reached), reached, out_of_time, self.info

    def save_state(self) -> dict[str, Any]:
        goal = float(self.obs["desired_goal"][0])
        return {"place": self.place, "t": self.t, "episodes": self.episodes, "goal": goal}

    def load_state(self, state: dict[str, Any]) -> None:
        self.place, self.t, self.episodes = state["place"], state["t"], state["episodes"]
        self.obs["desired_goal"][0] = state["goal"]

    def observe(self) -> dict[str, Any]:
        self.obs["achieved_goal"][0] = self.place
        self.obs["phase"] = 1 + self.t % 3
        self.obs["observation"][:] = [[self.place, self.t], [self.episodes % 4, 1.0]]
        return self.obs


class FreshGoals(GoalLine):
    """The same with a new dict for each info."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        obs, info = super().reset(seed=seed)
        return obs, dict(info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        *result, info = super().step(action)
        return *result, dict(info)  # type: ignore[return-value]


class UnpicklableInfo(Countdown):
    """Infos during an episode cannot be pickled, the info at its end can."""

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        ended = result[2] or result[3]
        return *result, {"is_success": True} if ended else {"way": lambda: None}
