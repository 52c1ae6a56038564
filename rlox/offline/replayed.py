"""The rows of a run's replay buffer as the columns of a dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.configs.atari import is_ale
from rlox.envs.actions import UnitCodec
from rlox.envs.engines.atari import reward_clip_of
from rlox.errors import ConfigError, StaleIndexError
from rlox.runs.algorithm import Algorithm
from rlox.sources.memory import Memory

__all__ = ["replayed_columns", "require_replay"]

AT_ONCE = 8192  # rows that are read in one call


def replayed_columns(algorithm: Algorithm) -> dict[str, NDArray[Any]]:
    """The whole episodes in the buffer of `algorithm`, one environment after the other, in time order.

    One whose first rows were overwritten is left out, and one that goes on: their returns are not known.
    """
    memory = require_replay(algorithm)
    parts = [
        columns
        for env in range(memory.buffer.n_envs)
        if (columns := _rows_of(memory, env)) is not None
    ]
    if not parts:
        raise ConfigError("the replay buffer of the checkpoint has no whole episode")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    codec, shape = algorithm.parts.actor.actions, algorithm.parts.actor.actions.shape
    if isinstance(codec, UnitCodec):
        columns["actions"] = codec.stretched(columns["actions"]).astype(np.float32)
    columns["actions"] = columns["actions"].reshape(-1, *shape)
    seen = algorithm.parts.actor.observations.seen  # a dataset has no masks
    for name in ("obs", "next_obs"):
        columns[name] = columns[name].reshape(len(columns[name]), -1)[:, :seen]
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


def _rows_of(memory: Memory, env: int) -> dict[str, NDArray[Any]] | None:
    buffer: Any = memory.buffer
    bounds = _held(buffer, env)
    if bounds is None:
        return None
    names = ("obs", "next_obs", "actions", "rewards", "terminated", "truncated")
    found: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    for first in range(bounds[0], bounds[1], AT_ONCE):
        positions = np.arange(first, min(first + AT_ONCE, bounds[1]))
        rows = buffer.gather((positions * buffer.n_envs + env).astype(np.uint64))
        for name in names:
            if isinstance(rows[name], dict):
                raise ConfigError("the buffer has goals apart from observations: no dataset has")
            found[name].append(rows[name])
    columns = {name: np.concatenate(parts) for name, parts in found.items()}
    ends = np.flatnonzero(columns["terminated"] | columns["truncated"])
    first = int(ends[0]) + 1 if bounds[0] and len(ends) else 0
    last = int(ends[-1]) + 1 if len(ends) else 0
    if last <= first:
        return None
    return {name: column[first:last] for name, column in columns.items()}


def _held(buffer: Any, env: int) -> tuple[int, int] | None:
    """From which to which position rows of `env` are there; rows of one environment have no gaps."""

    def there(position: int) -> bool:
        try:
            buffer.gather(np.array([position * buffer.n_envs + env], np.uint64))
        except StaleIndexError:
            return False
        return True

    each, most = buffer.capacity // buffer.n_envs, buffer.n_pushed
    # the newest is in the last ring's length before the most that could have been pushed
    newest = next((p for p in range(most - 1, -1, -each) if there(p)), None)
    if newest is None:
        newest = next((p for p in range(min(each, most)) if there(p)), None)
    if newest is None:
        return None
    return _edge(there, newest, -1), _edge(there, newest, 1) + 1


def _edge(there: Any, inside: int, step: int) -> int:
    """The last position that is there, from `inside` on in the direction of `step`."""
    reach = 1
    while inside + step * reach >= 0 and there(inside + step * reach):
        inside, reach = inside + step * reach, 2 * reach
    while reach > 1:
        reach //= 2
        if inside + step * reach >= 0 and there(inside + step * reach):
            inside += step * reach
    return inside
