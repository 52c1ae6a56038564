"""The data of the replay rows: an endless trajectory through a pool of observations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from harness.case import Results

Array = NDArray[Any]
EPISODE_LENGTH = 200  # steps
CHECKED_BATCHES, CHECKED_BATCH = 16, 256  # sampled rows that are compared with the pushed rows
MAX_COMPARED = 64  # approximate number of compared values per observation
FRAME_SHAPE, STACK_SIZE = (84, 84), 4


@dataclass(frozen=True)
class Rows:
    """Transitions; each array has a leading axis `[n]`, or none for a single transition."""

    obs: Array
    actions: Array
    rewards: Array
    terminated: Array
    truncated: Array
    next_obs: Array


@dataclass(frozen=True)
class Trajectory:
    """A trajectory: transition i leads from `pool[i % P]` to `pool[(i + 1) % P]` and has the reward i."""

    pool: Array  # [P, ...]
    actions: Array  # float32 [P, act_dim]

    @classmethod
    def vectors(cls, n: int, obs_dim: int, act_dim: int) -> Trajectory:
        """Make observations of normal float32 numbers."""
        rng = np.random.default_rng(obs_dim)
        return cls(
            rng.normal(size=(n, obs_dim)).astype(np.float32),
            rng.normal(size=(n, act_dim)).astype(np.float32),
        )

    @classmethod
    def images(cls, n: int, dtype: DTypeLike) -> Trajectory:
        """Make stacks of the last four of n random frames, `[n, 4, 84, 84]`."""
        rng = np.random.default_rng(n)
        frames = rng.integers(0, 256, (n, *FRAME_SHAPE)).astype(dtype)
        pool = np.stack([np.roll(frames, -k, axis=0) for k in range(STACK_SIZE)], axis=1)
        return cls(pool, rng.integers(0, 6, (n, 1)).astype(np.float32))

    def rows(self, start: int, count: int) -> Rows:
        """Return `count` transitions from number `start` on."""
        numbers = np.arange(start, start + count)
        indices = numbers % len(self.pool)
        return Rows(
            obs=self.pool[indices],
            actions=self.actions[indices],
            rewards=numbers.astype(np.float32),
            terminated=numbers % EPISODE_LENGTH == EPISODE_LENGTH - 1,
            truncated=np.zeros(count, np.bool_),
            next_obs=self.pool[(indices + 1) % len(self.pool)],
        )

    def blocks(self, n: int) -> Iterator[Rows]:
        """Yield the first `n` transitions, in blocks of the pool's length."""
        yield from (self.rows(start, len(self.pool)) for start in range(0, n, len(self.pool)))

    def count_wrong(self, obs: Array, next_obs: Array, rewards: Array) -> int:
        """Count the sampled rows that are no transitions of this trajectory."""
        indices = rewards.astype(np.int64).ravel() % len(self.pool)
        same = np.ones(len(indices), np.bool_)
        for sampled, pool_indices in ((obs, indices), (next_obs, (indices + 1) % len(self.pool))):
            flat, pool = sampled.reshape(len(indices), -1), self.pool.reshape(len(self.pool), -1)
            step = max(1, pool.shape[1] // MAX_COMPARED)
            same &= (flat[:, ::step] == pool[pool_indices, ::step]).all(axis=1)
        return int(np.count_nonzero(~same))


class ReplaySystem(Protocol):
    """The interface of a library's buffer."""

    def push(self, row: Rows) -> Callable[[], object]:
        """Return a call that stores one transition."""

    def push_batch(self, rows: Rows) -> Callable[[], object]:
        """Return a call that stores many transitions."""

    def sample(self, size: int) -> Callable[[], Any]:
        """Return a call that draws a batch."""

    def read(self, batch: Any) -> tuple[Array, Array, Array]:
        """Return the obs, next_obs and rewards of a batch."""


def single_transition(trajectory: Trajectory, number: int) -> Rows:
    """Return a single transition, without leading axis."""
    rows = trajectory.rows(number, 1)
    return Rows(*(getattr(rows, name)[0] for name in Rows.__dataclass_fields__))


def fill(replay: ReplaySystem, trajectory: Trajectory, n: int, *, one_by_one: bool) -> None:
    """Store the first `n` transitions, one by one or in batches."""
    if one_by_one:
        for number in range(n):
            replay.push(single_transition(trajectory, number))()
    else:
        for rows in trajectory.blocks(n):
            replay.push_batch(rows)()


def sample_check(replay: ReplaySystem, trajectory: Trajectory, n: int) -> Callable[[], Results]:
    """Return a check of samples from `n` stored rows.

    It counts sampled rows that were never pushed, and gives the mean position of the samples.
    """
    draw = replay.sample(CHECKED_BATCH)

    def check() -> Results:
        n_wrong, positions = 0, []
        for _ in range(CHECKED_BATCHES):
            obs, next_obs, rewards = replay.read(draw())
            n_wrong += trajectory.count_wrong(obs, next_obs, rewards)
            positions.append(float(rewards.mean()) / n)
        return {"wrong": np.array(n_wrong), "place": np.array(np.mean(positions))}

    return check
