"""A buffer of `rlox._core` as sources use it: rows in, batches out, columns back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import PrioritizedReplayBuffer, ReplayBuffer
from rlox.configs import PrioritizedConfig, ReplayConfig
from rlox.configs.buffers import MAX_CAPACITY
from rlox.envs.base import VectorEnv
from rlox.envs.failures import close_or_warn
from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.sources.chunk import Stretch
from rlox.sources.goals import COMPARED, Goals
from rlox.sources.packed import Packing
from rlox.types import Transitions

__all__ = ["MAX_DRAWN", "Memory", "drawn_bytes", "frames_of", "make_buffer"]

Buffer = ReplayBuffer | PrioritizedReplayBuffer

OBSERVED = ("obs", "next_obs")
MAX_DRAWN = 1 << 28  # rows that `rlox._core` draws in one call


class Memory:
    """A replay buffer with the sizes and discount of its batches.

    Drawn batches stay in the same memory from call to call.

    Attributes
    ----------
    arrays : whether batches are arrays, as learners in Rust take them, and not tensors
    """

    arrays = False

    def __init__(
        self,
        buffer: Buffer,
        config: ReplayConfig,
        batch_size: int,
        n_step: int,
        gamma: float,
        full_bytes: int,
        goals: Goals | None = None,
        frames: int = 1,
        packing: Packing | None = None,
        one_hot: Callable[[], tuple[Buffer, int]] | None = None,
    ) -> None:
        self.buffer = buffer
        self.frames = frames  # that an observation is a stack of
        self.packing = packing  # of the integers in it
        self._one_hot = one_hot
        self.config = config
        self.full_bytes = full_bytes
        self.goals = goals
        self._compared = 0  # rows whose reward was that of their goal
        self._draw: dict[str, Any] = {"n_step": n_step, "gamma": gamma}
        self._batch_size = batch_size
        # by number of batches: what is drawn into, the same with rows, and the columns of this memory
        self._out: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
        self.last: dict[str, NDArray[Any]] = {}

    @property
    def batches_at_once(self) -> int | None:
        """1 where what is learned from a batch decides the next one; `None`: any number."""
        return 1 if isinstance(self.config, PrioritizedConfig) else None

    @property
    def returns(self) -> dict[str, Any]:
        """`n_step` and `gamma` of what is drawn."""
        return self._draw

    def push(self, stretch: Stretch) -> None:
        """Store transitions of the environments in time order; of a lost step there may be none."""
        if len(stretch.env_ids):
            self._compare(stretch)
            self.buffer.push_batch(**self._rows(stretch))
        for env in stretch.lost:
            self.buffer.cut_episode(int(env))

    def _compare(self, stretch: Stretch) -> None:
        """Compare the first rewards with those of goals; not of a run that goes on with its rows."""
        if self.goals is None or self._compared >= COMPARED or len(self.buffer) > self._compared:
            return
        self.goals.require_paid(stretch.columns)
        self._compared += len(stretch.env_ids)

    def _rows(self, stretch: Stretch) -> dict[str, Any]:
        """The columns as the buffer has them."""
        given = stretch.columns
        rows: dict[str, Any] = self.goals.split(given) if self.goals else dict(given)
        if self.frames > 1:
            for name in OBSERVED:
                rows[name] = given[name].reshape(len(given[name]), self.frames, -1)
        if self.packing is not None:
            rows |= {name: self.packing.pack(given[name]) for name in OBSERVED}
        rows["env_ids"] = stretch.env_ids if self.buffer.n_envs > 1 else None
        return rows

    def weigh(self, elapsed: float) -> None:
        """Draw from now on with the weights of when the part `elapsed` of the run is over."""
        config, buffer = self.config, self.buffer
        if isinstance(config, PrioritizedConfig) and isinstance(buffer, PrioritizedReplayBuffer):
            buffer.set_beta(config.beta + (config.beta_final - config.beta) * elapsed)

    def drawn(self, count: int, env_steps: int) -> tuple[dict[str, Any], Transitions] | None:
        """The arrays that `count` batches have been drawn into, and the batches whose memory that is.

        `None` before the first draw, and where what is drawn is made into something else.
        """
        out = self._out.get(count)
        if out is None or self.frames > 1 or self.packing is not None:
            return None
        return out[0], Transitions(**out[2], indices=out[0]["indices"], env_steps=env_steps)

    def sample(self, count: int, elapsed: float, env_steps: int) -> Transitions:
        """`count` batches; `elapsed` is the part of the run that is over."""
        self.weigh(elapsed)
        if self.goals is not None and isinstance(self.buffer, ReplayBuffer):
            gamma = self._draw["gamma"]
            self.last = self.goals.sample(self.buffer, self._batch_size, count, gamma)
            columns = self._columns(self.last)
            return Transitions(**columns, indices=self.last["indices"], env_steps=env_steps)
        out = self._out.get(count)
        drawn = self.buffer.sample(
            self._batch_size, n_batches=count, out=out and out[0], **self._draw
        )
        if out is None:
            rows = drawn if self.packing is None else drawn | _blank(self.packing, drawn)
            out = self._out[count] = drawn, rows, self._columns(rows)
        self.last = out[1]
        if self.packing is not None:
            for name in OBSERVED:
                self.packing.unpack(drawn[name], self.last[name])
        return Transitions(**out[2], indices=self.last["indices"], env_steps=env_steps)

    def rows_of(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Observations `[n, ...]` as the buffer has them, as rows `[n, obs_dim]`."""
        if self.packing is None:
            return stored.reshape(len(stored), -1)
        rows = self.packing.codec.rows(len(stored))
        self.packing.unpack(stored, rows)
        return rows

    def keep_one_hot(self) -> None:
        """Keep integers one-hot, as buffers of earlier versions have them, in an empty buffer."""
        if self._one_hot is not None:
            self.buffer, self.full_bytes = self._one_hot()
            self.packing = self._one_hot = None

    def write(self, indices: NDArray[np.uint64], columns: Mapping[str, NDArray[Any]]) -> None:
        """Columns `[n, ...]` of the rows `indices` `[n]`; `priorities` are absolute errors."""
        for name, values in columns.items():
            if name == "priorities":
                self._prioritize(indices, values)
            else:
                self.buffer.update(name, indices, values)

    def _columns(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """Views of what was drawn; stacks of frames are rows again."""
        names = ("obs", "actions", "rewards", "next_obs", "discounts", "weights")
        columns = {name: drawn[name] for name in names if name in drawn}
        if self.frames > 1:
            for name in OBSERVED:
                columns[name] = columns[name].reshape(*columns[name].shape[:-2], -1)
        if self.arrays:
            return columns
        import torch

        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def close(self) -> None:
        """Close the environment that judges goals."""
        if self.goals is not None:
            close_or_warn(self.goals.env, "the environment that judges goals")

    def _prioritize(self, indices: NDArray[np.uint64], errors: NDArray[Any]) -> None:
        config, buffer = self.config, self.buffer
        if isinstance(config, PrioritizedConfig) and isinstance(buffer, PrioritizedReplayBuffer):
            buffer.update_priorities(indices, errors + config.priority_eps)


def make_buffer(
    config: ReplayConfig,
    env: VectorEnv,
    seed: int,
    goals: Goals | None = None,
    require: Callable[[int, int], object] = lambda capacity, full: None,
    packing: Packing | None = None,
) -> tuple[Buffer, int]:
    """The buffer that `config` describes for the transitions of `env`, and its bytes when full.

    With `packing` its observations are packed. `require(capacity, bytes)` is called before the buffer is
    made, which may take memory for every row: it raises where that is too much. `ConfigError` for a
    `buffer.memory` that holds too few transitions or too many.
    """
    columns: dict[str, Any] = {
        **({"obs_spaces": goals.spaces} if goals else _seen(env.observations, packing)),
        "action_shape": env.actions.shape,
        "action_dtype": str(env.actions.dtype),
        "n_envs": env.n_envs,
        "seed": seed,
    }
    if isinstance(config, PrioritizedConfig):
        kind: Any = PrioritizedReplayBuffer
        columns |= {"alpha": config.alpha, "beta": config.beta}
    else:
        kind = ReplayBuffer
    probe = kind(capacity=1024 * env.n_envs, **columns)
    row_bytes = -(-probe.nbytes // probe.capacity) + _kept_bytes(env.observations, packing)
    rows = config.rows or _rows_in(config, row_bytes, env.n_envs)
    capacity = max(rows // env.n_envs, 1) * env.n_envs
    require(capacity, capacity * row_bytes)
    buffer: Buffer = kind(capacity=capacity, **columns)
    return buffer, capacity * row_bytes


def frames_of(codec: ObservationCodec) -> int:
    """How many frames an image stacks along its first dimension, so that each is stored once.

    Where nobody says so, by the shape of an image alone: its first dimension of four, or of three where
    that is the smallest and neither one grey nor three colours. If it is no stack after all, nothing is
    shared, and nothing else is lost.
    """
    if len(codec.images) != 1 or codec.numbers or codec.masked:
        return 1
    if codec.frames > 1:
        return codec.frames
    first, *rest = codec.images[0].shape
    if len(rest) == 2 and (first >= min(rest) or first == 3):
        return 1
    return first if len(rest) > 1 else 1


def _seen(codec: ObservationCodec, packing: Packing | None) -> dict[str, Any]:
    """What a row is, as a buffer declares it."""
    frames, kind = frames_of(codec), codec.dtype.name
    if frames == 1:
        return {"obs_dim": packing.dim if packing else codec.dim, "obs_dtype": kind}
    shape = (frames, codec.dim // frames)
    return {"obs_shape": shape, "obs_dtype": kind, "frame_stack": (frames, "first")}


def _blank(packing: Packing, drawn: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Rows for the packed observations that were drawn."""
    return {name: packing.codec.rows(*drawn[name].shape[:-1]) for name in OBSERVED}


def _kept_bytes(codec: ObservationCodec, packing: Packing | None) -> int:
    """Memory of an observation in a full buffer, at most: a stack is one where it is said to be."""
    if packing is not None:
        return packing.row_bytes
    if codec.frames == 1 or frames_of(codec) == 1:
        return codec.row_bytes
    frame = codec.row_bytes // codec.frames
    # its frame, the numbers of the stack's, and those that beginnings and ends of episodes have besides: one
    # in 32 are as many as episodes of 64 steps have
    return frame + frame // 32 + 8 * codec.frames


def drawn_bytes(env: VectorEnv, goals: bool = False) -> int:
    """Bytes of one transition in a batch.

    Its observations are there twice where goals are given anew, and packed besides where they are packed.
    """
    observations = 2 * env.observations.row_bytes * (2 if goals else 1)
    if not goals and (packing := Packing.of(env.observations)):
        observations += 2 * packing.row_bytes
    return observations + env.actions.row_bytes + 4 * 8  # reward, discount, flags, weight, index


def _rows_in(config: ReplayConfig, row_bytes: int, n_envs: int) -> int:
    """The transitions that `config.memory` holds."""
    rows = (config.memory_bytes or 0) // row_bytes
    said = f"buffer.memory={config.memory} holds {rows:,} transitions of {row_bytes} bytes"
    if rows < n_envs:
        raise ConfigError(
            f"{said}, one of each environment is needed: expected at least {n_envs * row_bytes} bytes"
        )
    if rows > MAX_CAPACITY:
        largest = MAX_CAPACITY * row_bytes // 10**9
        raise ConfigError(
            f"{said}, a buffer at most {MAX_CAPACITY:,}: expected at most {largest}GB"
        )
    return rows
