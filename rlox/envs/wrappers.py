"""Wrappers that a configuration sets by a key of their own, by name, by `module:Name`, or as an object."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlox.configs import EnvConfig, nearest
from rlox.configs.env import is_ale, is_preprocessed_game, training_reward_clip
from rlox.configs.params import Code, display_name, spec_arguments
from rlox.envs.base import LIFE_LOST, TRUE_RETURN, to_flag, to_reward
from rlox.envs.builtin_wrappers import ActionRepeat, HideVelocities, StickyActions
from rlox.envs.critic_obs import info_parts_wrapper
from rlox.envs.engines.atari import AtariGame
from rlox.envs.spaces import format_space
from rlox.errors import ConfigError
from rlox.importing import build_object, load

__all__ = ["make_wrapper", "with_time_limit"]

Env = gym.Env[Any, Any]

# Wrappers of Gymnasium that change observations, actions, or the start or end of episodes.
NON_REWARD_WRAPPERS = (
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

WRAPPERS_BY_NAME: dict[str, Callable[[Env], Env]] = {
    "flatten_observation": gym.wrappers.FlattenObservation,
    "hide_velocities": HideVelocities,
    "minigrid_flat": lambda env: _wrap_minigrid(env, "FlatObsWrapper"),
    "minigrid_image": lambda env: _wrap_minigrid(env, "ImgObsWrapper"),
    "rescale_action": lambda env: gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1)),
    "time_aware_observation": gym.wrappers.TimeAwareObservation,
}


def make_wrapper(config: EnvConfig, training: bool) -> Callable[[Env], Env]:
    """Return a function that adds all configured wrappers; reward wrappers are for training only.

    Innermost first: the preprocessing of Atari games, sticky actions, action repeat, the selected keys of
    Dict observations, `env.wrappers`; then, for training only, `env.reward_wrappers`, the reward scale and
    clip. The reported return sums the rewards before these three change them. A time limit is inside all
    other wrappers (`with_time_limit`).

    Named wrappers are imported at once. User code is called as `Name(env, **arguments)`.
    """
    inner_wrappers: list[Callable[[Env], Env]] = [
        *_configured_wrappers(config, training),
        *(_named_wrapper(w, "env.wrappers", config.id) for w in config.wrappers),
        partial(info_parts_wrapper, config=config),
    ]
    reward_wrappers: list[Callable[[Env], Env]] = []
    if training:
        reward_wrappers += [
            _named_wrapper(w, "env.reward_wrappers", config.id) for w in config.reward_wrappers
        ]
        clip = training_reward_clip(config)
        if config.reward_scale != 1.0 or clip is not None:
            reward_wrappers.append(lambda env: ShapedReward(env, config.reward_scale, clip))

    def wrap_env(env: Env) -> Env:
        for wrap in inner_wrappers:
            env = wrap(env)
        return _shape_rewards(env, reward_wrappers) if reward_wrappers else env

    return wrap_env


def _require_wraps(wrapped_env: Env, env: Env, label: str) -> None:
    """Raise `ConfigError` if a wrapper returned another environment, which training would step instead.

    An object that is not a `gymnasium.Wrapper` may hold `env` anywhere, so only another id is an error.
    """
    layer = wrapped_env
    while isinstance(layer, gym.Wrapper) and layer is not env:
        layer = layer.env
    wrapped_spec, env_spec = layer.spec, env.unwrapped.spec
    if layer is not env and wrapped_spec is not None and (env_spec is None or wrapped_spec.id != env_spec.id):
        raise ConfigError(
            f"{label} returned {wrapped_spec.id}, which does not wrap the environment passed to it, "
            f"{type(env.unwrapped).__name__}; expected a wrapper of that one; to train in another "
            "environment, set it as env"
        )


def with_time_limit(env: Env, max_steps: int) -> Env:
    """Truncate the episodes of `env` after `max_steps` steps; this replaces its own limit."""
    wrapper = env
    while isinstance(wrapper, gym.Wrapper):
        if isinstance(wrapper, gym.wrappers.TimeLimit):
            wrapper._max_episode_steps = max_steps
            return env
        wrapper = wrapper.env
    return gym.wrappers.TimeLimit(env, max_steps)


def _configured_wrappers(config: EnvConfig, training: bool) -> Iterator[Callable[[Env], Env]]:
    """Yield the wrappers that have keys of their own."""
    if is_preprocessed_game(config):
        yield lambda env: AtariGame(env, config.atari, training)
    probability, n_repeats = config.repeat_action_probability, config.action_repeat
    if probability and not is_ale(config.id):  # ALE itself makes actions sticky
        yield lambda env: StickyActions(env, probability)
    if n_repeats > 1:
        yield lambda env: ActionRepeat(env, n_repeats)
    if config.obs_keys:
        yield lambda env: _select_obs_keys(env, config)


def _select_obs_keys(env: Env, config: EnvConfig) -> Env:
    """Keep the configured keys of Dict observations, and that of an action mask in the observations."""
    space, keys = env.observation_space, set(config.obs_keys)
    if not isinstance(space, spaces.Dict):
        raise ConfigError(
            f"env.obs_keys={list(config.obs_keys)}: {config.id} has observation space {format_space(space)}, "
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


def _wrap_minigrid(env: Env, name: str) -> Env:
    """Apply a wrapper of the package minigrid to one of its environments."""
    space = env.observation_space
    if not (isinstance(space, spaces.Dict) and {"image", "mission"} <= set(space)):
        raise ValueError(
            f"its observations are {format_space(space)}, expected MiniGrid's: image and mission"
        )
    wrapped_env: Env = vars(importlib.import_module("minigrid.wrappers"))[name](env)
    return wrapped_env


def _shape_rewards(env: Env, reward_wrappers: Sequence[Callable[[Env], Env]]) -> Env:
    """Add reward wrappers; an episode's last info reports its return without them."""
    true_return = env = TrueReturn(env)
    for wrap in reward_wrappers:
        env = wrap(env)
    layer = env
    while isinstance(layer, gym.Wrapper) and layer is not true_return:
        if isinstance(layer, NON_REWARD_WRAPPERS):
            raise ConfigError(
                f"env.reward_wrappers: {type(layer).__name__} changes more than rewards, and evaluations "
                "leave reward wrappers out; put it into env.wrappers"
            )
        layer = layer.env
    for name in ("observation_space", "action_space"):
        if getattr(env, name) != getattr(true_return, name):
            raise ConfigError(
                f"env.reward_wrappers change the {name}, and evaluations leave reward wrappers out; put the "
                "wrapper that does so into env.wrappers"
            )
    return TellTrueReturn(env, true_return)


class ShapedReward(gym.RewardWrapper[Any, Any]):
    """Changes each reward to `clip(scale * reward, -clip, clip)`; a clip of `None` does not clip."""

    def __init__(self, env: Env, scale: float, clip: float | None) -> None:
        super().__init__(env)
        self._scale, self._limit = scale, math.inf if clip is None else clip

    def reward(self, reward: Any) -> float:
        """Shape a reward for learning."""
        return min(max(self._scale * to_reward(reward), -self._limit), self._limit)


class TrueReturn(gym.Wrapper[Any, Any, Any, Any]):
    """Sums the environment's own rewards in an episode, inside the reward wrappers.

    A game that continues after a lost life is one episode.
    """

    total = 0.0
    on = False  # whether the last step lost a life in a game that continues

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Restart the sum at 0, unless a game continues."""
        if not self.on or options.get("seed") is not None:
            self.total = 0.0
        self.on = False
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and add the reward."""
        result = self.env.step(action)
        self.total += to_reward(result[1])
        self.on = bool(result[4].get(LIFE_LOST))
        return result


class TellTrueReturn(gym.Wrapper[Any, Any, Any, Any]):
    """Puts the true return into the info of an episode's last step."""

    def __init__(self, env: Env, true_return: TrueReturn) -> None:
        super().__init__(env)
        self._true_return = true_return

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and add the true return to the last info."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if to_flag("terminated", terminated) or to_flag("truncated", truncated):
            info = {**info, TRUE_RETURN: self._true_return.total}
        return observation, reward, terminated, truncated, info


def _named_wrapper(spec: Code, key: str, env_id: str) -> Callable[[Env], Env]:
    name, by_name = display_name(spec), WRAPPERS_BY_NAME.get(display_name(spec))
    if by_name is None:
        load(spec, key)  # at once, so that an error comes before anything is made
    elif unexpected_arguments := sorted(spec_arguments(spec)):
        raise ConfigError(f"{key}: {name} takes no arguments, got {', '.join(unexpected_arguments)}")

    def wrap(env: Env) -> Env:
        try:
            wrapped_env = build_object(spec, key, env) if by_name is None else by_name(env)
        except ConfigError:
            raise
        except (AssertionError, TypeError, ValueError) as error:
            raise ConfigError(f"{key}: {name} does not fit {env_id}: {error or 'wrong space'}") from error
        if not isinstance(wrapped_env, gym.Env):
            raise ConfigError(
                f"{key}: {name} returned a {type(wrapped_env).__name__}, expected a gymnasium.Env that wraps "
                "the one passed to it"
            )
        _require_wraps(wrapped_env, env, f"{key}: {name}")
        return wrapped_env

    return wrap
