"""The rows of a run's replay buffer as the columns of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.configs.atari import is_ale
from rlox.envs.actions import UnitCodec
from rlox.envs.engines.atari import reward_clip_of
from rlox.errors import ConfigError
from rlox.runs.algorithm import Algorithm
from rlox.sources.memory import Memory
from rlox.training.actor import player_of

__all__ = ["replayed_columns", "require_replay"]

AT_ONCE = 8192  # rows that are read in one call


def replayed_columns(algorithm: Algorithm) -> dict[str, NDArray[Any]]:
    """The whole episodes in the buffer of `algorithm`, one environment after the other, in time order.

    Left out are one whose first rows were overwritten, one that goes on, and one that was broken off without
    an end (a run that was resumed, a worker that failed): their returns are not known.
    """
    memory = require_replay(algorithm)
    # with fewer rows than steps it may have been filled anew, from the midst of an episode on
    anew = memory.buffer.n_pushed < algorithm.clock.env_steps
    parts = [
        columns
        for env, begins in enumerate(_begins(memory.buffer, anew))
        if (columns := _rows_of(memory.buffer, env, begins)) is not None
    ]
    if not parts:
        raise ConfigError("the replay buffer of the checkpoint has no whole episode")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    actor = player_of(algorithm.parts.actor, algorithm.name)
    codec, shape = actor.actions, actor.actions.shape
    if isinstance(codec, UnitCodec):
        columns["actions"] = codec.stretched(columns["actions"]).astype(np.float32)
    columns["actions"] = columns["actions"].reshape(-1, *shape)
    seen = actor.observations.seen  # a dataset has no masks
    for name in ("obs", "next_obs"):
        columns[name] = memory.rows_of(columns[name])[:, :seen]
    return columns


def require_replay(algorithm: Algorithm) -> Memory:
    """Its buffer; `ConfigError` where it keeps none, or one of other rewards than the environment's."""
    memory = getattr(algorithm.source, "memory", None)
    if not isinstance(memory, Memory):
        raise ConfigError(
            f"{algorithm.name} keeps no replay buffer, expected a run of dqn, rainbow, sac, td3 or ddpg"
        )
    env = algorithm.config.env
    lives = is_ale(env.id) and env.atari.life_loss
    clipped = reward_clip_of(env) is not None
    if env.reward_wrappers or env.reward_scale != 1.0 or clipped or lives:
        raise ConfigError(
            "the buffer has rewards that env.reward_wrappers, env.reward_scale, env.reward_clip or "
            "env.atari.clip_rewards changed, or lives as episodes (env.atari.life_loss), expected the "
            "environment's own; make a dataset of another quality"
        )
    return memory


def _rows_of(buffer: Any, env: int, begins: NDArray[np.int64]) -> dict[str, NDArray[Any]] | None:
    """The rows of `env` between the positions where its episodes begin, of those that have an end."""
    names = ("obs", "next_obs", "actions", "rewards", "terminated", "truncated")
    found: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for first in range(int(begins[0]), int(begins[-1]), AT_ONCE):
        positions = np.arange(first, min(first + AT_ONCE, begins[-1]))
        rows = buffer.gather((positions * buffer.n_envs + env).astype(np.uint64))
        for name in names:
            if isinstance(rows[name], dict):
                raise ConfigError("the buffer has goals apart from observations: no dataset has")
            found[name].append(rows[name])
    if not found["rewards"]:
        return None
    columns = {name: np.concatenate(parts) for name, parts in found.items()}
    ended = (columns["terminated"] | columns["truncated"])[begins[1:] - begins[0] - 1]
    if not ended.any():
        return None
    kept = np.repeat(ended, np.diff(begins))
    return {name: column if kept.all() else column[kept] for name, column in columns.items()}


def _begins(buffer: Any, anew: bool) -> Iterator[NDArray[np.int64]]:
    """Where each environment's episodes begin that have all their rows, and behind its newest row.

    Where rows may be missing before the first, `anew`, the episode at position 0 is not one of them.

    Flags do not say it: an episode that is broken off has none at its last row. Only the state of the
    buffer does; its rows, which come with it, are not kept.
    """
    state = buffer.state()
    rings, episodes = state["streams"].reshape(-1, 6).astype(np.int64), state["episodes"]
    del state
    at = 0
    for start, pushed, _, waits, _, count in rings:
        begins = episodes[at : at + count].astype(np.int64)
        at += count
        # the newest row may wait for its next observation, which is to come
        yield np.append(begins[begins >= max(start, int(anew))], pushed - waits)
