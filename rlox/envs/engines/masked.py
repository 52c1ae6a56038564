"""Masks of the actions that the copies of a vectorised environment allow, by the rules of single ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from rlox.envs.engines.rows import info_of, row_of
from rlox.envs.failures import raised
from rlox.envs.masks import MASK, SEEN, MaskSource
from rlox.errors import ConfigError, EnvError, RloxError

__all__ = ["EngineMasks", "mask_method"]

Vector = gym.vector.VectorEnv[Any, Any, Any]


class EngineMasks:
    """The masks of all copies `[n_envs, size]`, from where `MaskSource` has those of a single environment.

    That is `infos[key]`, `[n_envs, size]` or an array of each copy's; `action_masks()` of the engine, of what
    it wraps, or of each environment of Gymnasium's own; or the part `key` of the batched observations.
    """

    def __init__(self, env: Vector, mode: AutoresetMode, source: str, key: str, name: str) -> None:
        if source == "method" and mode is AutoresetMode.SAME_STEP:
            raise ConfigError(
                f"env.action_mask=method: {name} resets in the step that ends an episode (SAME_STEP), so "
                "that action_masks() tells nothing of the last state of a truncated one; set "
                "env.action_mask=info or observation, or use another autoreset_mode"
            )
        spaces = env.single_observation_space, env.single_action_space
        self.source = MaskSource(source, key, name, *spaces, mask_method(env))
        self._has_parts = isinstance(env.single_action_space, gym.spaces.Tuple)
        self._n = env.num_envs

    def rows(
        self, seen: Any, infos: Mapping[str, Any], over: NDArray[np.bool_], call: str
    ) -> NDArray[np.int8]:
        """The masks after a call; of ones for the copies in `over` `[n_envs]`, of which none is asked.

        `EnvError` that names the copy whose mask is missing, of another shape or kind, or allows nothing.
        """
        source, needed = self.source, np.flatnonzero(~over)
        rows = np.ones((self._n, source.size), np.int8)
        if not len(needed):
            return rows
        given, told = self._given(seen, infos, call), self._told(infos)
        if _is_plain(given) and told[needed].all():
            try:
                rows[needed] = source.checked(given[needed], call, source.name, (len(needed),))
                return rows
            except EnvError:
                pass  # one by one, to name the copy
        for i in needed.tolist():
            who = f"{source.name} (copy {i})"
            there = infos if source.source == "info" else seen
            if not told[i]:
                rest = {key: value for key, value in there.items() if key != source.key}
                source.found(rest, call, who)
            rows[i] = source.checked(self._of(given, i), call, who)
        return rows

    def beside(self, seen: Any, masks: NDArray[np.int8]) -> dict[str, Any]:
        """Observations and masks, of all copies or of one, as the codec of `source.space` reads them."""
        return {SEEN: self.source.without(seen), MASK: masks}

    def _given(self, seen: Any, infos: Mapping[str, Any], call: str) -> Any:
        """What the engine tells of all copies: something with a part for each."""
        source = self.source
        if source.tells is None:
            there = infos if source.source == "info" else seen
            given = source.found(there, call, source.name)
        else:
            try:
                given = source.tells()
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise EnvError(raised(source.name, "action_masks()", error)) from error
        if isinstance(given, Mapping) or self._is_of_parts(given):
            return given
        if isinstance(given, list | tuple) and len(given) == self._n:
            return given
        if not isinstance(given, np.ndarray) or given.shape[:1] != (self._n,):
            raise EnvError(
                f"the action mask of {source.name}, {source.where(call)}, is {_described(given)}, expected "
                f"[{self._n}, {source.size}] of 0 and 1: one of each environment"
            )
        return given

    def _told(self, infos: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Of which copies there is a mask, as Gymnasium's engines say it of each info, `[n_envs]`."""
        told = infos.get(f"_{self.source.key}") if self.source.source == "info" else None
        given = np.ones(self._n, np.bool_) if told is None else np.asarray(told)
        return given if given.shape == (self._n,) else np.ones(self._n, np.bool_)

    def _of(self, given: Any, i: int) -> Any:
        """The mask of copy `i`."""
        if self._is_of_parts(given):
            return tuple(None if part is None else row_of(part, i) for part in given)
        if not isinstance(given, Mapping):
            return given[i]
        if self.source.source == "observation":
            return row_of(given, i)
        return info_of(given, i, self._n)  # beside each part it may say whose that is

    def _is_of_parts(self, given: Any) -> bool:
        """Whether it is a mask of each part of a Tuple of actions, not one of each copy."""
        return isinstance(given, tuple) and self._has_parts


def mask_method(env: Vector) -> Callable[[], Any] | None:
    """`action_masks` of an engine or of what it wraps; of Gymnasium's own those of its environments."""
    inner: Any = env
    while True:
        method = getattr(inner, "action_masks", None)
        if callable(method):
            found: Callable[[], Any] = method
            return found
        if not isinstance(inner, gym.vector.VectorWrapper):
            break
        inner = inner.env
    if isinstance(inner, SyncVectorEnv):
        return _of_each(inner) if _has_method(inner.envs[0]) else None
    return _of_each(inner) if isinstance(inner, AsyncVectorEnv) else None


def _of_each(env: SyncVectorEnv | AsyncVectorEnv) -> Callable[[], list[Any]]:
    return lambda: list(env.call("action_masks"))


def _has_method(env: gym.Env[Any, Any]) -> bool:
    return env.has_wrapper_attr("action_masks") and callable(env.get_wrapper_attr("action_masks"))


def _is_plain(given: Any) -> bool:
    """Whether it is numbers, and not an array of objects."""
    return isinstance(given, np.ndarray) and given.dtype.kind != "O"


def _described(given: Any) -> str:
    if isinstance(given, np.ndarray):
        return f"of shape {list(given.shape)}"
    many = f" of {len(given)}" if isinstance(given, list | tuple) else ""
    return f"a {type(given).__name__}{many}"
