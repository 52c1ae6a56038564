"""Environments that write into their actions and return the same arrays again, and their polite twins."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from helpers.factored import SPACES
from rlox.envs.actions import ActionCodec

# By name, shape and dtype: the arrays that all copies of an impolite environment in a process return.
SHARED: dict[Any, Any] = {}


def written_over(value: Any) -> None:
    """Write junk into every array of a value, and empty its dicts."""
    if isinstance(value, dict):
        for part in value.values():
            written_over(part)
        value.clear()
    elif isinstance(value, tuple | list):
        for part in value:
            written_over(part)
    elif isinstance(value, np.ndarray):
        value[...] = 77


def numbers_of(value: Any) -> list[float]:
    """All numbers of an action."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in numbers_of(value[key])]
    if isinstance(value, tuple):
        return [number for part in value for number in numbers_of(part)]
    return np.ravel(value).astype(np.float64).tolist()


class Twin(gym.Env[Any, Any]):
    """Pays for every number of an action; episodes of 2 to 5 steps end in both ways.

    `mask` says where the mask of the choices is: `none`, `info`, `method` or `observation`. An impolite one
    writes junk into its action once it has read it, and into all that it returned at each later call.
    """

    def __init__(self, space: str, mask: str = "none", polite: bool = True) -> None:
        self.action_space = SPACES[space]
        self.mask, self.polite = mask, polite
        seen: gym.Space[Any] = spaces.Box(-1, 1, (3,), np.float32)
        self.choices = ActionCodec.of(self.action_space).choices
        self.observation_space = (
            spaces.Dict({"action_mask": spaces.MultiBinary(sum(self.choices)), "seen": seen})
            if mask == "observation"
            else seen
        )
        self.t = self.limit = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._spoil()
        self.t, self.limit = 0, int(self.np_random.integers(2, 6))
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self._spoil()
        paid = float(np.tanh(np.dot(numbers := numbers_of(action), np.arange(1, len(numbers) + 1))))
        if not self.polite:
            written_over(action)
        self.t += 1
        over, odd = self.t == self.limit, self.limit % 2 == 1
        reward = self._same("reward", np.float64(paid + 0.1 * self.t))
        terminated = self._same("terminated", np.bool_(over and odd))
        truncated = self._same("truncated", np.bool_(over and not odd))
        return self._seen(), reward, terminated, truncated, self._info()

    def action_masks(self) -> Any:
        """Each choice without one of its values, by turns."""
        rows = [np.arange(n) != (self.t + k) % n for k, n in enumerate(self.choices)]
        return self._same("mask", np.concatenate([row | (len(row) == 1) for row in rows]))

    def _seen(self) -> Any:
        seen = self._same("seen", self.np_random.uniform(-1, 1, 3).astype(np.float32))
        if self.mask != "observation":
            return seen
        parts = {"action_mask": self.action_masks().astype(np.int8), "seen": seen}
        return self._same("parts", parts)

    def _info(self) -> dict[str, Any]:
        path = self._same("path", np.arange(4.0) + self.t)
        info = {"path": path, "nested": {"t": [self.t]}, "is_success": self.t > 3}
        if self.mask == "info":
            info["action_mask"] = self.action_masks()
        return self._same("info", info)

    def _same(self, name: str, value: Any) -> Any:
        """The value, or what all copies return, with the value in it."""
        if self.polite:
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
        if not self.polite:
            for value in SHARED.values():
                written_over(value)


class Scribbles(gym.vector.VectorWrapper):
    """An engine that writes into its actions and options, and at each later call into what it returned."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._kept: dict[str, Any] = {}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self._spoil()
        seen, infos = self.env.reset(seed=seed, options=options)
        written_over(options)
        return self._same("seen", seen), self._same("infos", infos)

    def step(self, actions: Any) -> Any:
        self._spoil()
        seen, paid, over, cut, infos = self.env.step(actions)
        written_over(actions)
        found = {"seen": seen, "paid": paid, "over": over, "cut": cut, "infos": infos}
        return tuple(self._same(*item) for item in found.items())

    def action_masks(self) -> Any:
        """Those of all, which the next call writes over."""
        return self._same("masks", np.array(self.env.call("action_masks")))  # type: ignore[attr-defined]

    def _spoil(self) -> None:
        for value in self._kept.values():
            written_over(value)

    def _same(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):  # Gymnasium's engine goes on with its own
            kept = self._kept[name] = dict(value)
            return kept
        kept = self._kept.setdefault(name, np.empty_like(value))
        kept[...] = value
        return kept


def twins(num_envs: int, space: str, mask: str, polite: bool, mode: AutoresetMode) -> Any:
    """An engine of twins, each of them polite: Gymnasium's loop over them keeps what they return."""
    env = SyncVectorEnv([partial(Twin, space, mask)] * num_envs, copy=polite, autoreset_mode=mode)
    return env if polite else Scribbles(env)
