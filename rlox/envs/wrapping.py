"""What is put around an environment: by a key of its own, by name, by `module:Name`, or an object."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlox.configs import EnvConfig, nearest
from rlox.configs.atari import is_ale
from rlox.configs.code import Code, arguments_of, name_of
from rlox.envs.base import GOES_ON, TRUE_RETURN, flag_of, reward_of
from rlox.envs.engines.atari import AtariGame, plays_games, reward_clip_of
from rlox.envs.repeats import ActionRepeat, StickyActions
from rlox.envs.spaces import short
from rlox.envs.velocities import HideVelocities
from rlox.errors import ConfigError
from rlox.importing import load, made

__all__ = ["limited", "wrapping"]

Env = gym.Env[Any, Any]

# Wrappers of Gymnasium that change what is seen or done, or where an episode ends or begins.
MORE_THAN_REWARDS = (
    gym.ObservationWrapper,
    gym.ActionWrapper,
    *(
        vars(gym.wrappers)[name]
        for name in (
            "AtariPreprocessing",
            "Autoreset",
            "FrameStackObservation",
            "MaxAndSkipObservation",
            "RepeatAction",
            "TimeLimit",
        )
        if name in gym.wrappers.__all__  # not every version has all
    ),
)

BY_NAME: dict[str, Callable[[Env], Env]] = {
    "flatten_observation": gym.wrappers.FlattenObservation,
    "hide_velocities": HideVelocities,
    "minigrid_flat": lambda env: _of_minigrid(env, "FlatObsWrapper"),
    "minigrid_image": lambda env: _of_minigrid(env, "ImgObsWrapper"),
    "rescale_action": lambda env: gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1)),
    "time_aware_observation": gym.wrappers.TimeAwareObservation,
}


def wrapping(config: EnvConfig, training: bool) -> Callable[[Env], Env]:
    """What puts all that is configured around an environment; in training what changes rewards too.

    Innermost first: the preprocessing of Atari games, sticky actions, action repeat, the chosen parts
    of Dict observations, `env.wrappers`; then what is for training only, `env.reward_wrappers`, the scale
    and the clip. The return that is told is counted beneath these. A time limit is beneath everything
    (`limited`).

    What they name is imported now. Own code is called as `Name(env, **arguments)`.
    """
    inner = [
        *_settings(config, training),
        *(_wrapper(w, "env.wrappers", config.id) for w in config.wrappers),
    ]
    outer: list[Callable[[Env], Env]] = []
    if training:
        outer += [_wrapper(w, "env.reward_wrappers", config.id) for w in config.reward_wrappers]
        clip = reward_clip_of(config)
        if config.reward_scale != 1.0 or clip is not None:
            outer.append(lambda env: ShapedReward(env, config.reward_scale, clip))

    def wrapped(env: Env) -> Env:
        for wrap in inner:
            env = wrap(env)
        return _shaped(env, outer) if outer else env

    return wrapped


def _require_around(found: Env, env: Env, whose: str) -> None:
    """`ConfigError` where a wrapper gave another environment, which training would step in place of `env`.

    One that is no `gymnasium.Wrapper` may have it beneath anywhere: only another id tells.
    """
    inner = found
    while isinstance(inner, gym.Wrapper) and inner is not env:
        inner = inner.env
    theirs, ours = inner.spec, env.unwrapped.spec
    if inner is not env and theirs is not None and (ours is None or theirs.id != ours.id):
        raise ConfigError(
            f"{whose} gave {theirs.id}, which is not around the environment that it is called with, "
            f"{type(env.unwrapped).__name__}; expected a wrapper of that one; to train in another, give "
            "that as the environment"
        )


def limited(env: Env, max_steps: int) -> Env:
    """An environment that somebody made, truncated after so many steps in place of its own limit."""
    found = env
    while isinstance(found, gym.Wrapper):
        if isinstance(found, gym.wrappers.TimeLimit):
            found._max_episode_steps = max_steps
            return env
        found = found.env
    return gym.wrappers.TimeLimit(env, max_steps)


def _settings(config: EnvConfig, training: bool) -> Iterator[Callable[[Env], Env]]:
    """The wrappers that are keys of their own."""
    if plays_games(config):
        yield lambda env: AtariGame(env, config.atari, training)
    probability, times = config.repeat_action_probability, config.action_repeat
    if probability and not is_ale(config.id):  # which has a switch of its own for it
        yield lambda env: StickyActions(env, probability)
    if times > 1:
        yield lambda env: ActionRepeat(env, times)
    if config.obs_keys:
        yield lambda env: _chosen(env, config)


def _chosen(env: Env, config: EnvConfig) -> Env:
    """The parts of Dict observations that are asked for; a mask of actions among them is one of them."""
    space, keys = env.observation_space, set(config.obs_keys)
    if not isinstance(space, spaces.Dict):
        raise ConfigError(
            f"env.obs_keys={list(config.obs_keys)}: {config.id} has observation space {short(space)}, "
            "expected a Dict; leave env.obs_keys out"
        )
    if config.action_mask == "observation":
        keys.add(config.action_mask_key)
    for key in config.obs_keys:
        if key not in space.spaces:
            raise ConfigError(
                f"env.obs_keys: {config.id} has no part '{key}', expected some of "
                f"{', '.join(space)}{nearest(key, list(space))}"
            )
    return gym.wrappers.FilterObservation(env, [key for key in space if key in keys])


def _of_minigrid(env: Env, name: str) -> Env:
    """A wrapper of the package minigrid, around an environment of it."""
    space = env.observation_space
    if not (isinstance(space, spaces.Dict) and {"image", "mission"} <= set(space)):
        raise ValueError(
            f"its observations are {short(space)}, expected MiniGrid's: image and mission"
        )
    wrapped: Env = vars(importlib.import_module("minigrid.wrappers"))[name](env)
    return wrapped


def _shaped(env: Env, outer: Sequence[Callable[[Env], Env]]) -> Env:
    """With wrappers of the reward, and the return that was paid beneath them told at the end."""
    counted = env = TrueReturn(env)
    for wrap in outer:
        env = wrap(env)
    inner = env
    while isinstance(inner, gym.Wrapper) and inner is not counted:
        if isinstance(inner, MORE_THAN_REWARDS):
            raise ConfigError(
                f"env.reward_wrappers: {type(inner).__name__} changes more than rewards, which evaluations "
                "would not have; put it into env.wrappers"
            )
        inner = inner.env
    for name in ("observation_space", "action_space"):
        if getattr(env, name) != getattr(counted, name):
            raise ConfigError(
                f"env.reward_wrappers change the {name}, which evaluations would not have; put what does "
                "into env.wrappers"
            )
    return TellTrueReturn(env, counted)


class ShapedReward(gym.RewardWrapper[Any, Any]):
    """`clip(scale * reward, -clip, clip)`; without a clip where that is `None`."""

    def __init__(self, env: Env, scale: float, clip: float | None) -> None:
        super().__init__(env)
        self._scale, self._most = scale, math.inf if clip is None else clip

    def reward(self, reward: Any) -> float:
        """What is learned from."""
        return min(max(self._scale * reward_of(reward), -self._most), self._most)


class TrueReturn(gym.Wrapper[Any, Any, Any, Any]):
    """Adds up what the environment itself pays in an episode, beneath wrappers that change it.

    A game that goes on behind a lost life is one episode.
    """

    total = 0.0
    on = False

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin at 0."""
        if not self.on or options.get("seed") is not None:
            self.total = 0.0
        self.on = False
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and add."""
        result = self.env.step(action)
        self.total += reward_of(result[1])
        self.on = bool(result[4].get(GOES_ON))
        return result


class TellTrueReturn(gym.Wrapper[Any, Any, Any, Any]):
    """Puts the true return into the info of an episode's last step."""

    def __init__(self, env: Env, counted: TrueReturn) -> None:
        super().__init__(env)
        self._counted = counted

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and tell."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        if flag_of("terminated", terminated) or flag_of("truncated", truncated):
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
        _require_around(found, env, f"{key}: {name}")
        return found

    return wrap
