"""Actions that are taken more than once: action repeat, and sticky actions."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlox._core import stream_seed
from rlox.envs.base import to_flag, to_reward

__all__ = ["ActionRepeat", "StickyActions"]

StepResult = tuple[Any, Any, bool, bool, dict[str, Any]]
_STREAM_RANGE = 1 << 63  # `stream_seed` gives numbers below it


class ActionRepeat(gym.Wrapper[Any, Any, Any, Any]):
    """Takes each action `times` times, or until the episode ends.

    What is seen, and the info, are those of the last step taken; the reward is the sum. An end in the
    middle, of either kind, is the end of the whole.
    """

    def __init__(self, env: gym.Env[Any, Any], times: int) -> None:
        super().__init__(env)
        self._times = times

    def step(self, action: Any) -> StepResult:
        """The steps with one action."""
        total = 0.0
        for _ in range(self._times):
            # a copy: the environment may write into it
            observation, reward, terminated, truncated, info = self.env.step(copy.deepcopy(action))
            total += to_reward(reward)
            if to_flag("terminated", terminated) or to_flag("truncated", truncated):
                break
        return observation, total, terminated, truncated, info


class StickyActions(gym.Wrapper[Any, Any, Any, Any]):
    """At each step takes the action of the step before, with a probability, instead of the one given.

    After Machado et al. 2018, section 5.2: what is repeated is the action that was taken, so that it may
    stick for several steps. The first action of an episode is always the one given. The draw of a step is
    a function of the seed of the last seeded reset and of the steps taken since then.
    """

    def __init__(self, env: gym.Env[Any, Any], probability: float) -> None:
        super().__init__(env)
        self._probability = probability
        self._key: int | None = None
        self._n_draws = 0
        self._last_action: Any = None  # the action taken in the step before; None at the start of an episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; with a seed, the draws too."""
        if seed is not None:
            self._key, self._n_draws = stream_seed(seed, "sticky-actions", 0), 0
        self._last_action = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> StepResult:
        """A step with the action, or with the one before it."""
        if self._key is None:  # never seeded: as the environment then is, another every time
            self._key = int(self.env.unwrapped.np_random.integers(_STREAM_RANGE))
        uniform = stream_seed(self._key, "sticky-actions", self._n_draws) / _STREAM_RANGE
        self._n_draws += 1
        if self._last_action is None or uniform >= self._probability:
            # copies: the caller may write the next action into the same memory, the environment into its own
            self._last_action = copy.deepcopy(action)
        return self.env.step(copy.deepcopy(self._last_action))

    def save_state(self) -> dict[str, Any]:
        """The place in the stream and the last action, as one vector."""
        last = self._last_action
        if last is not None:
            last = np.array(spaces.flatten(self.action_space, last))
        return {"key": self._key, "drawn": self._n_draws, "last": last}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `save_state()`."""
        last = state["last"]
        self._key = None if state["key"] is None else int(state["key"])
        self._n_draws = int(state["drawn"])
        self._last_action = None if last is None else spaces.unflatten(self.action_space, last)
