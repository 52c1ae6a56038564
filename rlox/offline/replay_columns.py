"""Conversion of a run's replay buffer to the columns of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.configs.env import is_ale, training_reward_clip
from rlox.envs.actions import UnitCodec
from rlox.errors import ConfigError
from rlox.runs.algorithm import Algorithm
from rlox.sources.replay_sampler import ReplaySampler
from rlox.training.actor import require_actor

__all__ = ["read_replay_columns", "require_replay_sampler"]

ROWS_AT_ONCE = 8192  # rows read in one call


def read_replay_columns(algorithm: Algorithm) -> dict[str, NDArray[Any]]:
    """Return the complete episodes in the buffer of `algorithm`, sorted by environment, then by time.

    Episodes with unknown returns are dropped: those whose first rows were overwritten, that still run, or
    that were interrupted without an end (by a resume or a failed worker).
    """
    replay_sampler = require_replay_sampler(algorithm)
    # with fewer rows than steps, the buffer may have been refilled from the middle of an episode on
    is_restarted = replay_sampler.buffer.n_pushed < algorithm.clock.env_steps
    env_columns = [
        columns
        for env, starts in enumerate(_episode_starts(replay_sampler.buffer, is_restarted))
        if (columns := _episode_rows(replay_sampler.buffer, env, starts)) is not None
    ]
    if not env_columns:
        raise ConfigError("the replay buffer of the checkpoint has no whole episode")
    columns = {
        name: np.concatenate([columns_of_env[name] for columns_of_env in env_columns])
        for name in env_columns[0]
    }
    actor = require_actor(algorithm.components.actor, algorithm.name)
    codec, shape = actor.actions, actor.actions.shape
    if isinstance(codec, UnitCodec):
        columns["actions"] = codec.to_bounds(columns["actions"]).astype(np.float32)
    columns["actions"] = columns["actions"].reshape(-1, *shape)
    obs_size = actor.observations.input_dim  # a dataset has no masks
    for name in ("obs", "next_obs"):
        columns[name] = replay_sampler.rows_of(columns[name])[:, :obs_size]
    return columns


def require_replay_sampler(algorithm: Algorithm) -> ReplaySampler:
    """Return the replay sampler; raise `ConfigError` without one, or if training changed its rewards."""
    replay_sampler = getattr(algorithm.source, "replay_sampler", None)
    if not isinstance(replay_sampler, ReplaySampler):
        raise ConfigError(
            f"{algorithm.name} keeps no replay buffer, expected a run of dqn, rainbow, sac, td3 or ddpg"
        )
    env = algorithm.config.env
    has_lives = is_ale(env.id) and env.atari.life_loss
    is_clipped = training_reward_clip(env) is not None
    if env.reward_wrappers or env.reward_scale != 1.0 or is_clipped or has_lives:
        raise ConfigError(
            "the buffer has rewards that env.reward_wrappers, env.reward_scale, env.reward_clip or "
            "env.atari.clip_rewards changed, or lives as episodes (env.atari.life_loss); a dataset needs "
            "those of the environment: make one of another quality"
        )
    return replay_sampler


def _episode_rows(buffer: Any, env: int, starts: NDArray[np.int64]) -> dict[str, NDArray[Any]] | None:
    """Return the rows of `env` between the `starts` of its episodes, for episodes that have an end."""
    names = ("obs", "next_obs", "actions", "rewards", "terminated", "truncated")
    chunks: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for start in range(int(starts[0]), int(starts[-1]), ROWS_AT_ONCE):
        positions = np.arange(start, min(start + ROWS_AT_ONCE, starts[-1]))
        rows = buffer.gather((positions * buffer.n_envs + env).astype(np.uint64))
        for name in names:
            if isinstance(rows[name], dict):
                raise ConfigError("the buffer has goals separate from observations, which no dataset has")
            chunks[name].append(rows[name])
    if not chunks["rewards"]:
        return None
    columns = {name: np.concatenate(parts) for name, parts in chunks.items()}
    has_end = (columns["terminated"] | columns["truncated"])[starts[1:] - starts[0] - 1]
    if not has_end.any():
        return None
    is_kept = np.repeat(has_end, np.diff(starts))
    return {name: column if is_kept.all() else column[is_kept] for name, column in columns.items()}


def _episode_starts(buffer: Any, is_restarted: bool) -> Iterator[NDArray[np.int64]]:
    """Yield, for each environment, the starts of episodes with all their rows, and last the end of all rows.

    With `is_restarted`, rows may be missing before position 0, so an episode that starts there is excluded.

    Flags are not sufficient: an interrupted episode has none at its last row. Only the state of the buffer
    has the starts; the rows that come with it are dropped.
    """
    state = buffer.state()
    rings, episodes = state["streams"].reshape(-1, 6).astype(np.int64), state["episodes"]
    del state
    position = 0
    for start, pushed, _, n_waiting, _, count in rings:
        starts = episodes[position : position + count].astype(np.int64)
        position += count
        # the newest rows may still wait for their next observation
        yield np.append(starts[starts >= max(start, int(is_restarted))], pushed - n_waiting)
