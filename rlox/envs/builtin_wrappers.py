"""rlox's own wrappers: action repeat, sticky actions, and classic control without velocities."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import stream_seed
from rlox.envs.base import to_flag, to_reward
from rlox.errors import ConfigError

__all__ = ["ActionRepeat", "HideVelocities", "StickyActions"]

StepResult = tuple[Any, Any, bool, bool, dict[str, Any]]
_STREAM_RANGE = 1 << 63  # `stream_seed` returns numbers below it


class ActionRepeat(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats each action `times` times, or until the episode ends.

    Observation and info are those of the last step taken; the reward is the sum. A termination or truncation
    in the middle ends the whole step.
    """

    def __init__(self, env: gym.Env[Any, Any], times: int) -> None:
        super().__init__(env)
        self._times = times

    def step(self, action: Any) -> StepResult:
        """Step repeatedly with one action."""
        total = 0.0
        for _ in range(self._times):
            # a copy: the environment may write into its action
            observation, reward, terminated, truncated, info = self.env.step(copy.deepcopy(action))
            total += to_reward(reward)
            if to_flag("terminated", terminated) or to_flag("truncated", truncated):
                break
        return observation, total, terminated, truncated, info


class StickyActions(gym.Wrapper[Any, Any, Any, Any]):
    """With some probability, takes the previous action again instead of the given one.

    After Machado et al. 2018, section 5.2: the previous action is the one that was executed, not the one that
    was given, so an action may stick for several steps. The first action of an episode is always the given
    one. The random number of a step is a function of the seed of the last seeded reset and of the number of
    steps since then.
    """

    def __init__(self, env: gym.Env[Any, Any], probability: float) -> None:
        super().__init__(env)
        self._probability = probability
        self._key: int | None = None
        self._n_draws = 0
        self._last_action: Any = None  # the action of the step before; None at the start of an episode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; a seed also restarts the random numbers."""
        if seed is not None:
            self._key, self._n_draws = stream_seed(seed, "sticky-actions", 0), 0
        self._last_action = None
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> StepResult:
        """Step with the given action or the previous one."""
        if self._key is None:  # never seeded: draw a key from the environment's own generator
            self._key = int(self.env.unwrapped.np_random.integers(_STREAM_RANGE))
        uniform = stream_seed(self._key, "sticky-actions", self._n_draws) / _STREAM_RANGE
        self._n_draws += 1
        if self._last_action is None or uniform >= self._probability:
            # two copies: the caller may reuse its array, and the environment may write into its action
            self._last_action = copy.deepcopy(action)
        return self.env.step(copy.deepcopy(self._last_action))

    def save_state(self) -> dict[str, Any]:
        """Return the key and position of the random stream, and the last action as a flat vector."""
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


# Indices of the numbers that are not velocities, by the environment's name without its version.
POSITIONS = {
    "Acrobot": (0, 1, 2, 3),
    "CartPole": (0, 2),
    "MountainCar": (0,),
    "MountainCarContinuous": (0,),
    "Pendulum": (0, 1),
}


class HideVelocities(gym.ObservationWrapper[Any, Any, Any]):
    """Keeps only the positions: the same task, but the policy needs a memory.

    After Meuleau et al. 1999, "Learning finite-state controllers for partially observable environments",
    which balances a pole from its angle and position alone.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        name = "" if env.spec is None else env.spec.id.rpartition("/")[2].rpartition("-v")[0]
        if name not in POSITIONS:
            raise ConfigError(
                f"env.wrappers: hide_velocities knows the velocities of {', '.join(POSITIONS)}, not of "
                f"{'this environment' if env.spec is None else env.spec.id}; use a wrapper of your own"
            )
        self._position_indices = list(POSITIONS[name])
        space = env.observation_space
        assert isinstance(space, spaces.Box)
        self.observation_space = spaces.Box(
            space.low[self._position_indices], space.high[self._position_indices], dtype=np.float32
        )

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the positions."""
        return observation[self._position_indices]
