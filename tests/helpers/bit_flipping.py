"""Bit flipping (Andrychowicz et al. 2017, section 3.1): a task that random exploration never solves."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Array = NDArray[Any]


class BitFlipping(gym.Env[Any, Any]):
    """Action i flips bit i; reward -1 a step, 0 at the goal, which terminates; truncated after n steps."""

    def __init__(self, n: int = 8) -> None:
        bits = spaces.Box(0.0, 1.0, (n,), np.float32)
        parts = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict(dict.fromkeys(parts, bits))
        self.action_space = spaces.Discrete(n)
        self.n = n

    def reset(
        self, *, seed: int | None = None, options: Any = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self.bits, self.goal = self.np_random.integers(0, 2, (2, self.n)).astype(np.float32)
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        self.bits = self.bits.copy()
        self.bits[int(action)] = 1.0 - self.bits[int(action)]
        self.t += 1
        is_at_goal = bool(goal_reached(self.bits, self.goal))
        reward = float(self.compute_reward(self.bits[None], self.goal[None], {})[0])
        return self._obs(), reward, is_at_goal, self.t >= self.n, {"is_success": is_at_goal}

    def compute_reward(self, achieved: Array, desired: Array, info: Any) -> Array:
        return goal_reached(achieved, desired).astype(np.float32) - 1.0

    def compute_terminated(self, achieved: Array, desired: Array, info: Any) -> Array:
        return goal_reached(achieved, desired)

    def save_state(self) -> dict[str, Any]:
        return {"bits": self.bits.tolist(), "goal": self.goal.tolist(), "t": self.t}

    def load_state(self, state: dict[str, Any]) -> None:
        self.bits, self.goal = (np.array(state[k], np.float32) for k in ("bits", "goal"))
        self.t = state["t"]

    def _obs(self) -> dict[str, Array]:
        return {"observation": self.bits, "achieved_goal": self.bits, "desired_goal": self.goal}


class FailingBitFlipping(BitFlipping):
    """Also ends when all bits are 1; no episode has this state as its goal."""

    def reset(self, **options: Any) -> tuple[dict[str, Array], dict[str, Any]]:
        _, info = super().reset(**options)
        self.goal[0] = 0.0
        return self._obs(), info

    def step(self, action: Any) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        obs, reward, is_at_goal, late, info = super().step(action)
        return obs, reward, is_at_goal or bool(self.bits.all()), late, info


class FailingWithoutRule(FailingBitFlipping):
    """Does not declare where a goal would have ended an episode."""

    compute_terminated: Any = None


class FailingOneByOne(FailingBitFlipping):
    """Declares this for one goal at a time, as Gymnasium-Robotics does."""

    def compute_terminated(self, achieved: Array, desired: Array, info: Any) -> Any:
        return bool(np.linalg.norm(achieved - desired) < 0.5)


class NonTerminatingGoal(FailingBitFlipping):
    """The goal ends no episode, although its rule says so."""

    def step(self, action: Any) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        obs, reward, _, late, info = super().step(action)
        return obs, reward, bool(self.bits.all()), late, info


def goal_reached(achieved: Array, desired: Array) -> Array:
    """Return whether every bit equals the goal's, for goals `[..., n]`."""
    return np.asarray(np.abs(achieved - desired).sum(-1) == 0)
