"""Environments that write into their actions and reuse their arrays, and safe twins of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from helpers.factored_actions import SPACES
from rlox.envs.actions import ActionCodec

# The arrays that all copies of an unsafe environment in a process return, by name, shape and dtype.
SHARED: dict[Any, Any] = {}


def overwrite(value: Any) -> None:
    """Write junk into every array of a value, and empty its dicts."""
    if isinstance(value, dict):
        for part in value.values():
            overwrite(part)
        value.clear()
    elif isinstance(value, tuple | list):
        for part in value:
            overwrite(part)
    elif isinstance(value, np.ndarray):
        value[...] = 77


def numbers_of(value: Any) -> list[float]:
    """Return all numbers of an action."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in numbers_of(value[key])]
    if isinstance(value, tuple):
        return [number for part in value for number in numbers_of(part)]
    return np.ravel(value).astype(np.float64).tolist()


class MutatingEnv(gym.Env[Any, Any]):
    """Its reward depends on every number of an action; episodes of 2 to 5 steps end in both ways.

    `mask` is the place of the choices' mask: `none`, `info`, `method` or `observation`. An unsafe environment
    writes junk into its action after it has read it, and at each later call into everything that it returned.
    """

    def __init__(self, space: str, mask: str = "none", is_safe: bool = True) -> None:
        self.action_space = SPACES[space]
        self.mask, self.is_safe = mask, is_safe
        obs_space: gym.Space[Any] = spaces.Box(-1, 1, (3,), np.float32)
        self.choices = ActionCodec.of(self.action_space).choices
        self.observation_space = (
            spaces.Dict({"action_mask": spaces.MultiBinary(sum(self.choices)), "seen": obs_space})
            if mask == "observation"
            else obs_space
        )
        self.t = self.limit = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._spoil()
        self.t, self.limit = 0, int(self.np_random.integers(2, 6))
        return self.observe(), self._info()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._spoil()
        base_reward = float(np.tanh(np.dot(numbers := numbers_of(action), np.arange(1, len(numbers) + 1))))
        if not self.is_safe:
            overwrite(action)
        self.t += 1
        over, odd = self.t == self.limit, self.limit % 2 == 1
        reward = self.shared_value("reward", np.float64(base_reward + 0.1 * self.t))
        terminated = self.shared_value("terminated", np.bool_(over and odd))
        truncated = self.shared_value("truncated", np.bool_(over and not odd))
        return self.observe(), reward, terminated, truncated, self._info()

    def action_masks(self) -> Any:
        """Return a mask that forbids one value of each choice, a different one at each step."""
        rows = [np.arange(n) != (self.t + k) % n for k, n in enumerate(self.choices)]
        return self.shared_value("mask", np.concatenate([row | (len(row) == 1) for row in rows]))

    def observe(self) -> Any:
        obs = self.shared_value("seen", self.np_random.uniform(-1, 1, 3).astype(np.float32))
        if self.mask != "observation":
            return obs
        parts = {"action_mask": self.action_masks().astype(np.int8), "seen": obs}
        return self.shared_value("parts", parts)

    def _info(self) -> dict[str, Any]:
        path = self.shared_value("path", np.arange(4.0) + self.t)
        info = {"path": path, "nested": {"t": [self.t]}, "is_success": self.t > 3}
        if self.mask == "info":
            info["action_mask"] = self.action_masks()
        return self.shared_value("info", info)

    def shared_value(self, name: str, value: Any) -> Any:
        """Return the value; if unsafe, write it into the array that all copies return."""
        if self.is_safe:
            return value
        if isinstance(value, dict):
            shared = SHARED.setdefault(name, {})
            shared.clear()
            shared.update(value)
            return shared
        array = SHARED.setdefault((name, value.shape, value.dtype), np.empty_like(value))
        array[...] = value
        return array

    def _spoil(self) -> None:
        if not self.is_safe:
            for value in SHARED.values():
                overwrite(value)


class MutatingVectorEnv(gym.vector.VectorWrapper):
    """An engine that writes into its actions and options, and later into everything that it returned."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._shared: dict[str, Any] = {}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._spoil()
        obs, infos = self.env.reset(seed=seed, options=options)
        overwrite(options)
        return self.shared_value("seen", obs), self.shared_value("infos", infos)

    def step(self, actions: Any) -> Any:
        self._spoil()
        obs, rewards, over, cut, infos = self.env.step(actions)
        overwrite(actions)
        outputs = {"seen": obs, "paid": rewards, "over": over, "cut": cut, "infos": infos}
        return tuple(self.shared_value(*item) for item in outputs.items())

    def action_masks(self) -> Any:
        """Return the masks of all copies, which the next call overwrites."""
        return self.shared_value("masks", np.array(self.env.call("action_masks")))  # type: ignore[attr-defined]

    def _spoil(self) -> None:
        for value in self._shared.values():
            overwrite(value)

    def shared_value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):  # Gymnasium's engine continues to use its own dict
            shared = self._shared[name] = dict(value)
            return shared
        shared = self._shared.setdefault(name, np.empty_like(value))
        shared[...] = value
        return shared


def make_mutating(num_envs: int, space: str, mask: str, is_safe: bool, mode: AutoresetMode) -> Any:
    """Return an engine of safe twins: Gymnasium's loop over them keeps the values that they return."""
    env = SyncVectorEnv([partial(MutatingEnv, space, mask)] * num_envs, copy=is_safe, autoreset_mode=mode)
    return env if is_safe else MutatingVectorEnv(env)
