"""Parts of observations that a critic sees and its actor does not (Pinto et al. 2018, arXiv:1710.06542).

A row contains them like any other part. `with_critic_parts` marks them in the codec, by which the networks of
the actor leave their columns out. `InfoParts` makes parts of entries of the info.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.configs.env import INFO_PREFIX
from rlox.configs.name_suggestions import nearest
from rlox.envs.masks import MaskedCodec
from rlox.envs.parts_codec import OBSERVATION, PartsCodec, is_image
from rlox.envs.spaces import BYTE, NUMERIC_KINDS, ObservationCodec, format_space
from rlox.errors import ConfigError, EnvError

__all__ = ["InfoParts", "info_parts_wrapper", "with_critic_parts"]

Env = gym.Env[Any, Any]


def with_critic_parts(codec: ObservationCodec, config: EnvConfig) -> ObservationCodec:
    """Return the codec with the parts that `env.critic_obs` names marked as the critic's.

    Raises `ConfigError` if the observation has no such part, if no other part is left for the actor, and for
    a part with an image.
    """
    if not config.critic_obs:
        return codec
    if isinstance(codec, MaskedCodec):
        return replace(codec, inner=with_critic_parts(codec.inner, config))
    label = f"env.critic_obs={list(config.critic_obs)}"
    if len(set(config.critic_obs)) < len(config.critic_obs):
        raise ConfigError(f"{label}: a part is named twice; name each once")
    if not isinstance(codec, PartsCodec) or not isinstance(codec.space, spaces.Dict):
        raise ConfigError(
            f"{label}: {config.id} has observation space {format_space(codec.space)}, expected a Dict with "
            "the parts that only the critic sees; leave env.critic_obs out, or make a Dict with a wrapper "
            "(env.wrappers)"
        )
    for name in config.critic_obs:
        if name not in codec.codecs:
            raise ConfigError(
                f"{label}: {config.id} has no part '{name}', expected some of {', '.join(codec.codecs)}"
                f"{nearest(name, list(codec.codecs))}"
            )
        if codec.codecs[name].images:
            raise ConfigError(
                f"{label}: part '{name}' of {config.id} has an image, expected numbers; leave it out, or "
                "give the critic the state as numbers"
            )
    marked = replace(codec, critic_parts=frozenset(config.critic_obs))
    if not marked.actor_numbers and not codec.images:
        raise ConfigError(
            f"{label}: no other part of {config.id} has numbers, so the actor would see nothing"
        )
    return marked


def info_parts_wrapper(env: Env, config: EnvConfig) -> Env:
    """Add the entries of the info that `env.critic_obs` names to the observations."""
    space, keys = env.observation_space, config.critic_infos
    if isinstance(space, spaces.Dict):  # parts of the environment itself may have such names
        keys = tuple(key for key in keys if INFO_PREFIX + key not in space.spaces)
    return InfoParts(env, keys, config.id) if keys else env


class InfoParts(gym.Wrapper[Any, Any, Any, Any]):
    """Adds `info[key]` to each observation as the part `info.key`, float32.

    Observations that are no Dict become its part `observation`. The environment is reset once, to learn the
    shapes of the entries.

    Parameters
    ----------
    env : the environment
    keys : keys of the info of reset and of every step
    name : its name, for messages
    """

    def __init__(self, env: Env, keys: Sequence[str], name: str) -> None:
        super().__init__(env)
        self._keys, self._name = tuple(keys), name
        self._has_parts = isinstance(env.observation_space, spaces.Dict)
        _, info = env.reset(seed=0)
        entries = self._entries(info, "reset", {})
        self._shapes = {part: entry.shape for part, entry in entries.items()}
        own_parts = env.observation_space if self._has_parts else {OBSERVATION: env.observation_space}
        boxes = {part: spaces.Box(-np.inf, np.inf, shape) for part, shape in self._shapes.items()}
        self.observation_space = spaces.Dict({**own_parts, **boxes})  # type: ignore[dict-item]

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset; return the observation with the entries."""
        observation, info = self.env.reset(**options)
        return self._join(observation, info, "reset"), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; return the observation with the entries."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._join(observation, info, "step"), reward, terminated, truncated, info

    def _join(self, observation: Any, info: Mapping[str, Any], call: str) -> dict[str, Any]:
        own_parts = observation if self._has_parts else {OBSERVATION: observation}
        return {**own_parts, **self._entries(info, call, self._shapes)}

    def _entries(
        self, info: Mapping[str, Any], call: str, shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, NDArray[np.float32]]:
        """Return the entries by the names of their parts; `EnvError` for a missing one or another shape."""
        entries = {}
        for key in self._keys:
            part = INFO_PREFIX + key
            if key not in info:
                keys = ", ".join(map(repr, info)) or "nothing"
                raise EnvError(
                    f"env.critic_obs={part}: the info of {call} of {self._name} has {keys}, expected {key!r}"
                    f"{nearest(key, list(info))}; name an entry that reset and every step give"
                )
            entry = np.asarray(info[key])
            expected = shapes.get(part, entry.shape)
            if entry.dtype.kind not in NUMERIC_KINDS or not entry.size or entry.shape != expected:
                raise EnvError(
                    f"env.critic_obs={part}: info[{key!r}] of {call} of {self._name} has shape "
                    f"{entry.shape} and dtype {entry.dtype}, expected {expected} of numbers"
                )
            if entry.dtype == BYTE and is_image(spaces.Box(0, 255, entry.shape, BYTE)):
                raise EnvError(
                    f"env.critic_obs={part}: info[{key!r}] of {call} of {self._name} is an image of shape "
                    f"{entry.shape}, expected numbers; give the critic the state, as float32"
                )
            entries[part] = entry.astype(np.float32)
        return entries
