"""Warn of environments in which no episode ends, before an evaluation waits for whole episodes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rlox.configs import EnvConfig
from rlox.configs.atari import is_ale
from rlox.envs.engines.atari import is_preprocessed_game
from rlox.envs.engines.factories import engine_factory_for
from rlox.envs.ids import find_spec

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm

__all__ = ["endless_episodes_warning", "step_limit"]


def endless_episodes_warning(algorithm: Algorithm) -> str | None:
    """Return a warning if no episode has ended although each environment was stepped past its limit."""
    config = algorithm.config
    steps = algorithm.clock.env_steps // config.env.n_envs
    if not steps or algorithm.recent.count:
        return None
    limit = step_limit(config.env)
    if limit is not None and steps <= limit:
        return None
    remedy = (
        f"give {config.env.id} a limit, e.g. env.max_episode_steps=1000"
        if limit is None
        else f"something around {config.env.id} prevents its limit of {limit:,} steps from ending episodes"
    )
    return (
        f"no episode has ended in {steps:,} steps of each environment; an evaluation plays "
        f"{config.eval.episodes} whole episodes: {remedy}"
    )


def step_limit(config: EnvConfig) -> int | None:
    """Return the number of actions after which an episode is cut off; `None` if no limit is known."""
    limit = config.max_episode_steps
    frame_skip_option: object = config.atari.frame_skip if is_preprocessed_game(config) else 1
    if limit is None:
        with suppress(Exception):  # without a spec no limit is known
            if config.backend not in ("envpool", "ale") and engine_factory_for(config) is not None:
                return None
            spec = find_spec(config.id)
            arguments = {**spec.kwargs, **config.kwargs}
            is_ale_game = is_ale(config.id)  # ALE counts frames
            limit = arguments.get("max_num_frames_per_episode" if is_ale_game else "max_episode_steps")
            limit = limit or spec.max_episode_steps
            if is_ale_game and not is_preprocessed_game(config):
                frame_skip_option = arguments.get("frameskip", 1)
    if limit is None:
        return None
    frame_skip = (
        frame_skip_option if isinstance(frame_skip_option, int) else 1
    )  # for a range of frame skips (ALE): 1, which gives the longest possible episode
    return -(-limit // (frame_skip * config.action_repeat))
