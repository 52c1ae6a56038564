"""Action masks of all copies of a vectorised environment, by the rules for single environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from rlox.envs.engines.rows import select_info, select_row
from rlox.envs.failures import env_error_message
from rlox.envs.masks import MASK, OBSERVATION, MaskReader
from rlox.errors import ConfigError, EnvError, RloxError

__all__ = ["EngineMasks", "mask_method"]

Vector = gym.vector.VectorEnv[Any, Any, Any]


class EngineMasks:
    """Reads the masks of all copies, `[n_envs, size]`, from the places where `MaskReader` finds that of one.

    These are `infos[key]`, `[n_envs, size]` or one array per copy; `action_masks()` of the engine, of an
    engine it wraps, or of each environment of Gymnasium's own engines; or the part `key` of batched
    observations.
    """

    def __init__(self, env: Vector, mode: AutoresetMode, source: str, key: str, name: str) -> None:
        if source == "method" and mode is AutoresetMode.SAME_STEP:
            raise ConfigError(
                f"env.action_mask=method: {name} resets in the step that ends an episode (SAME_STEP), so "
                "action_masks() gives no mask for the last state of a truncated episode; set "
                "env.action_mask=info or observation, or use another autoreset_mode"
            )
        spaces = env.single_observation_space, env.single_action_space
        self.reader = MaskReader(source, key, name, *spaces, mask_method(env))
        self._has_parts = isinstance(env.single_action_space, gym.spaces.Tuple)
        self._n = env.num_envs

    def rows(
        self, observations: Any, infos: Mapping[str, Any], is_over: NDArray[np.bool_], call: str
    ) -> NDArray[np.int8]:
        """Return the masks after a call; where `is_over` `[n_envs]` is true they are all ones and not read.

        `EnvError` names the copy whose mask is missing, has another shape or type, or allows nothing.
        """
        reader, required_envs = self.reader, np.flatnonzero(~is_over)
        rows = np.ones((self._n, reader.size), np.int8)
        if not len(required_envs):
            return rows
        raw_masks, has_mask = self._raw_masks(observations, infos, call), self._has_mask(infos)
        if _is_numeric(raw_masks) and has_mask[required_envs].all():
            try:
                rows[required_envs] = reader.check_mask(
                    raw_masks[required_envs], call, reader.name, (len(required_envs),)
                )
                return rows
            except EnvError:
                pass  # check one by one, to name the copy
        for i in required_envs.tolist():
            label = f"{reader.name} (copy {i})"
            container = infos if reader.source == "info" else observations
            if not has_mask[i]:
                other_entries = {key: value for key, value in container.items() if key != reader.key}
                reader.find_mask(other_entries, call, label)  # raises, as the key is left out
            rows[i] = reader.check_mask(self._mask_of(raw_masks, i), call, label)
        return rows

    def with_masks(self, observations: Any, masks: NDArray[np.int8]) -> dict[str, Any]:
        """Combine observations and masks, of all copies or of one, for the codec of `reader.space`."""
        return {OBSERVATION: self.reader.strip_mask(observations), MASK: masks}

    def _raw_masks(self, observations: Any, infos: Mapping[str, Any], call: str) -> Any:
        """Read the engine's masks of all copies, in a container from which `_mask_of` selects each copy's."""
        reader = self.reader
        if reader.mask_method is None:
            container = infos if reader.source == "info" else observations
            raw_masks = reader.find_mask(container, call, reader.name)
        else:
            try:
                raw_masks = reader.mask_method()
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise EnvError(env_error_message(reader.name, "action_masks()", error)) from error
        if isinstance(raw_masks, Mapping) or self._is_of_parts(raw_masks):
            return raw_masks
        if isinstance(raw_masks, list | tuple) and len(raw_masks) == self._n:
            return raw_masks
        if not isinstance(raw_masks, np.ndarray) or raw_masks.shape[:1] != (self._n,):
            raise EnvError(
                f"the action mask of {reader.name}, {reader.location(call)}, is {_describe(raw_masks)}, "
                f"expected [{self._n}, {reader.size}] of 0 and 1: one mask per environment"
            )
        return raw_masks

    def _has_mask(self, infos: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return which copies gave a mask, `[n_envs]`, from the `_key` entries of Gymnasium's engines."""
        flags = infos.get(f"_{self.reader.key}") if self.reader.source == "info" else None
        has_mask = np.ones(self._n, np.bool_) if flags is None else np.asarray(flags)
        return has_mask if has_mask.shape == (self._n,) else np.ones(self._n, np.bool_)

    def _mask_of(self, raw_masks: Any, i: int) -> Any:
        """Return the mask of copy `i`."""
        if self._is_of_parts(raw_masks):
            return tuple(None if part is None else select_row(part, i) for part in raw_masks)
        if not isinstance(raw_masks, Mapping):
            return raw_masks[i]
        if self.reader.source == "observation":
            return select_row(raw_masks, i)
        return select_info(raw_masks, i, self._n)  # may hold `_key` entries next to the parts

    def _is_of_parts(self, raw_masks: Any) -> bool:
        """Tell whether the tuple has an entry for each part of a Tuple action, rather than for each copy."""
        return isinstance(raw_masks, tuple) and self._has_parts


def mask_method(env: Vector) -> Callable[[], Any] | None:
    """Return `action_masks` of an engine or one it wraps; Gymnasium's own engines call each environment's."""
    wrapped_env: Any = env
    while True:
        attribute = getattr(wrapped_env, "action_masks", None)
        if callable(attribute):
            method: Callable[[], Any] = attribute
            return method
        if not isinstance(wrapped_env, gym.vector.VectorWrapper):
            break
        wrapped_env = wrapped_env.env
    if isinstance(wrapped_env, SyncVectorEnv):
        return _call_each(wrapped_env) if _has_method(wrapped_env.envs[0]) else None
    return _call_each(wrapped_env) if isinstance(wrapped_env, AsyncVectorEnv) else None


def _call_each(env: SyncVectorEnv | AsyncVectorEnv) -> Callable[[], list[Any]]:
    return lambda: list(env.call("action_masks"))


def _has_method(env: gym.Env[Any, Any]) -> bool:
    return env.has_wrapper_attr("action_masks") and callable(env.get_wrapper_attr("action_masks"))


def _is_numeric(raw_masks: Any) -> bool:
    """Tell whether the masks are an array, and not one of objects."""
    return isinstance(raw_masks, np.ndarray) and raw_masks.dtype.kind != "O"


def _describe(raw_masks: Any) -> str:
    if isinstance(raw_masks, np.ndarray):
        return f"of shape {list(raw_masks.shape)}"
    length = f" of {len(raw_masks)}" if isinstance(raw_masks, list | tuple) else ""
    return f"a {type(raw_masks).__name__}{length}"
