"""What is put around an environment: wrappers by name, by `module:Name`, or the user's own objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from rlox.configs import EnvConfig
from rlox.configs.code import Code, arguments_of, name_of
from rlox.envs.velocities import HideVelocities
from rlox.errors import ConfigError
from rlox.importing import load, made

__all__ = ["TRUE_RETURN", "wrapping"]

Env = gym.Env[Any, Any]

TRUE_RETURN = "rlox/true_return"  # in the info of an episode's last step, where rewards are shaped

BY_NAME: dict[str, Callable[[Env], Env]] = {
    "flatten_observation": gym.wrappers.FlattenObservation,
    "hide_velocities": HideVelocities,
    "rescale_action": lambda env: gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1)),
    "time_aware_observation": gym.wrappers.TimeAwareObservation,
}


def wrapping(config: EnvConfig, training: bool) -> Callable[[Env], Env]:
    """What puts the configured wrappers around an environment; in training those of the reward too.

    What they name is imported now. Own code is called as `Name(env, **arguments)`.
    """
    inner = [_wrapper(spec, "env.wrappers", config.id) for spec in config.wrappers]
    shaping = config.reward_wrappers if training else ()
    outer = [_wrapper(spec, "env.reward_wrappers", config.id) for spec in shaping]

    def wrapped(env: Env) -> Env:
        for wrap in inner:
            env = wrap(env)
        if not outer:
            return env
        counted = env = TrueReturn(env)
        for wrap in outer:
            env = wrap(env)
            if isinstance(env, (gym.ObservationWrapper, gym.ActionWrapper)):
                raise ConfigError(
                    f"env.reward_wrappers: {type(env).__name__} changes more than rewards, which evaluations "
                    "would not have; put it into env.wrappers"
                )
        for name in ("observation_space", "action_space"):
            if getattr(env, name) != getattr(counted, name):
                raise ConfigError(
                    f"env.reward_wrappers change the {name}, which evaluations would not have; put what does "
                    "into env.wrappers"
                )
        return TellTrueReturn(env, counted)

    return wrapped


class TrueReturn(gym.Wrapper[Any, Any, Any, Any]):
    """Adds up what the environment itself pays in an episode, beneath wrappers that change it."""

    total = 0.0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin at 0."""
        self.total = 0.0
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and add."""
        result = self.env.step(action)
        self.total += float(result[1])
        return result


class TellTrueReturn(gym.Wrapper[Any, Any, Any, Any]):
    """Puts the true return into the info of an episode's last step."""

    def __init__(self, env: Env, counted: TrueReturn) -> None:
        super().__init__(env)
        self._counted = counted

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and tell."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            info = {**info, TRUE_RETURN: self._counted.total}
        return seen, reward, terminated, truncated, info


def _wrapper(spec: Code, key: str, env_id: str) -> Callable[[Env], Env]:
    name, by_name = name_of(spec), BY_NAME.get(name_of(spec))
    if by_name is None:
        load(spec, key)  # here, so that a mistake is told before anything is made
    elif extra := sorted(arguments_of(spec)):
        raise ConfigError(f"{key}: {name} takes no arguments, got {', '.join(extra)}")

    def wrap(env: Env) -> Env:
        try:
            found = made(spec, key, env) if by_name is None else by_name(env)
        except ConfigError:
            raise
        except (AssertionError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{key}: {name} does not fit {env_id}: {error or 'wrong space'}"
            ) from error
        if not isinstance(found, gym.Env):
            raise ConfigError(
                f"{key}: {name} gave a {type(found).__name__}, expected a gymnasium.Env around the one "
                "that it is called with"
            )
        return found

    return wrap
