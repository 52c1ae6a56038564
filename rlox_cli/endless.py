"""A warning of environments in which no episode ends, before an evaluation waits for whole ones."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rlox.configs import EnvConfig
from rlox.configs.atari import is_ale
from rlox.envs.engines.atari import plays_games
from rlox.envs.engines.makers import maker_of
from rlox.envs.ids import find_spec

if TYPE_CHECKING:
    from rlox.runs.algorithm import Algorithm

__all__ = ["endless", "step_limit"]


def endless(algorithm: Algorithm) -> str | None:
    """What to say where no episode came to an end, though each environment was stepped past its limit."""
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
        else f"something around {config.env.id} keeps its limit of {limit:,} from ending them"
    )
    return (
        f"no episode has ended in {steps:,} steps of each environment; an evaluation plays "
        f"{config.eval.episodes} whole ones: {remedy}"
    )


def step_limit(config: EnvConfig) -> int | None:
    """Actions after which an episode is cut off; `None` where nothing says so."""
    found = config.max_episode_steps
    skipped: object = config.atari.frame_skip if plays_games(config) else 1
    if found is None:
        with suppress(Exception):  # what has no spec has no limit that is known
            if config.backend not in ("envpool", "ale") and maker_of(config) is not None:
                return None
            spec = find_spec(config.id)
            given = {**spec.kwargs, **config.kwargs}
            game = is_ale(config.id)  # which counts frames
            found = given.get("max_num_frames_per_episode" if game else "max_episode_steps")
            found = found or spec.max_episode_steps
            if game and not plays_games(config):
                skipped = given.get("frameskip", 1)
    if found is None:
        return None
    held = (
        skipped if isinstance(skipped, int) else 1
    )  # a range of ALE's: the longest that it can take
    return -(-found // (held * config.action_repeat))
