"""Sampling from a replay buffer of `rlox._core`: push transitions, draw batches, change drawn rows.

The buffer holds one-hot columns of observations as one integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import ReplayBuffer
from rlox.configs import ReplayConfig
from rlox.configs.buffers import MAX_CAPACITY
from rlox.envs.base import VectorEnv
from rlox.envs.failures import close_or_warn
from rlox.envs.spaces import FLOAT, ObservationCodec
from rlox.errors import ConfigError
from rlox.sources.hindsight import MAX_COMPARED, HindsightRelabeler
from rlox.sources.sampling import SAMPLINGS, AnyReplayBuffer
from rlox.sources.transition_chunks import TransitionChunk
from rlox.types import Transitions

__all__ = [
    "MAX_SAMPLED_ROWS",
    "OneHotPacking",
    "ReplaySampler",
    "frames_to_share",
    "make_buffer",
    "sampled_bytes",
]

MAX_VALUES = 1 << 24  # float32 represents smaller integers exactly


@dataclass(frozen=True)
class OneHotPacking:
    """Packs rows: first come the numbers that are not one-hot, then each integer as one float32, from 0.

    Images and an action mask follow unchanged. A row that is packed and then unpacked has the same bytes.
    """

    codec: ObservationCodec
    kept_columns: NDArray[np.int64]  # columns, in a row's numbers, that stay unchanged
    one_hot_columns: NDArray[np.int64]  # the one-hot columns
    first_columns: NDArray[np.int64]  # the first column of each integer
    offsets: NDArray[np.int64]  # how many of `one_hot_columns` precede those of each integer

    @classmethod
    def of(cls, codec: ObservationCodec) -> OneHotPacking | None:
        """Return the packing for rows of `codec`; `None` if no row becomes shorter."""
        integers = [(first, n) for first, n in codec.one_hot_columns if 1 < n <= MAX_VALUES]
        if not integers:
            return None
        firsts, sizes = np.asarray(integers, np.int64).T
        one_hot_columns = np.concatenate([np.arange(first, first + n) for first, n in integers])
        kept_columns = np.delete(np.arange(codec.numeric_dim), one_hot_columns)
        return cls(codec, kept_columns, one_hot_columns, firsts, np.cumsum(sizes) - sizes)

    @property
    def numeric_dim(self) -> int:
        """The count of numbers in a packed row."""
        return len(self.kept_columns) + len(self.first_columns)

    @property
    def dim(self) -> int:
        """The length of a packed row, which has the dtype of the codec's rows."""
        return self.codec.dim - self._columns_per_number * (self.codec.numeric_dim - self.numeric_dim)

    @property
    def row_bytes(self) -> int:
        """Bytes of a packed row."""
        return self.dim * self.codec.dtype.itemsize

    def pack(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Pack rows `[..., codec.dim]` into a new array `[..., dim]`."""
        packed = np.zeros((*rows.shape[:-1], self.dim), self.codec.dtype)
        numbers, packed_numbers = self.codec.numeric_view(rows), self._numeric_view(packed)
        one_hot = numbers[..., self.one_hot_columns]
        # exactly one column of each integer is not 0, so the results are in the order of the integers
        places = np.nonzero(one_hot.reshape(-1, len(self.one_hot_columns)))[1]
        packed_numbers[..., : len(self.kept_columns)] = numbers[..., self.kept_columns]
        packed_numbers[..., len(self.kept_columns) :] = (
            places.reshape(*one_hot.shape[:-1], len(self.first_columns)) - self.offsets
        )
        packed[..., self._columns_per_number * self.numeric_dim :] = rows[
            ..., self._columns_per_number * self.codec.numeric_dim :
        ]
        return packed

    def unpack(self, packed: NDArray[Any], rows: NDArray[Any]) -> None:
        """Unpack `packed` `[..., dim]` into `rows` `[..., codec.dim]`."""
        rows[...] = 0
        packed_numbers, numbers = self._numeric_view(packed), self.codec.numeric_view(rows)
        numbers[..., self.kept_columns] = packed_numbers[..., : len(self.kept_columns)]
        places = packed_numbers[..., len(self.kept_columns) :].astype(np.int64) + self.first_columns
        np.put_along_axis(numbers, places, 1.0, -1)
        rows[..., self._columns_per_number * self.codec.numeric_dim :] = packed[
            ..., self._columns_per_number * self.numeric_dim :
        ]

    @property
    def _columns_per_number(self) -> int:
        """Columns of one number: its bytes if rows contain images, else 1."""
        return FLOAT.itemsize if self.codec.images else 1

    def _numeric_view(self, packed: NDArray[Any]) -> NDArray[np.float32]:
        """Return a view of the numbers in packed rows."""
        numbers: NDArray[np.float32] = packed[..., : self._columns_per_number * self.numeric_dim].view(FLOAT)
        return numbers


OBS_COLUMNS = ("obs", "next_obs")
MAX_SAMPLED_ROWS = 1 << 28  # most rows that `rlox._core` draws in one call


class ReplaySampler:
    """A replay buffer with the batch size, n-step and discount of its batches.

    Batches of later calls reuse the memory of earlier ones.

    Attributes
    ----------
    returns_arrays : whether batches are NumPy arrays, for learners in Rust, instead of tensors
    """

    returns_arrays = False

    def __init__(
        self,
        buffer: AnyReplayBuffer,
        config: ReplayConfig,
        batch_size: int,
        n_step: int,
        gamma: float,
        full_bytes: int,
        hindsight: HindsightRelabeler | None = None,
        n_frames: int = 1,
        packing: OneHotPacking | None = None,
        make_one_hot_buffer: Callable[[], tuple[AnyReplayBuffer, int]] | None = None,
    ) -> None:
        self.buffer = buffer
        self.n_frames = n_frames  # frames stacked in one observation
        self.packing = packing  # of integers in observations; None: they stay one-hot
        self._make_one_hot_buffer = make_one_hot_buffer
        self._sampling = SAMPLINGS[config.name](config)
        is_uniform = type(buffer) is ReplayBuffer and self._sampling.draws_in_rust(buffer)
        if hindsight is not None and not is_uniform:
            raise ConfigError(
                f"buffer.hindsight: buffer={config.name} draws transitions in its own way; leave "
                "buffer.hindsight out"
            )
        self.full_bytes = full_bytes
        self.hindsight = hindsight
        self._n_compared = 0  # rows whose rewards were compared with `compute_reward`
        self._return_settings: dict[str, Any] = {"n_step": n_step, "gamma": gamma}
        self._batch_size = batch_size
        # for each number of batches: the drawn arrays, these with unpacked rows, and views of their columns
        self._outputs: dict[int, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {}
        self.last_sample: dict[str, NDArray[Any]] = {}

    @property
    def batches_at_once(self) -> int | None:
        """1 if each batch changes how the next one is drawn; `None`: any number."""
        return self._sampling.batches_at_once

    @property
    def return_settings(self) -> dict[str, Any]:
        """`n_step` and `gamma` of the sampled batches."""
        return self._return_settings

    def push(self, chunk: TransitionChunk) -> None:
        """Store the transitions of `chunk`, which are in time order; if steps were lost there may be none."""
        if len(chunk.env_ids):
            self._check_rewards(chunk)
            self.buffer.push_batch(**self._buffer_columns(chunk))
        for env in chunk.lost_envs:
            self.buffer.cut_episode(int(env))

    def _check_rewards(self, chunk: TransitionChunk) -> None:
        """Compare a run's first rewards with `compute_reward`, unless a resumed run has rows already."""
        if self.hindsight is None or self._n_compared >= MAX_COMPARED or len(self.buffer) > self._n_compared:
            return
        self.hindsight.require_consistent_rewards(chunk.columns)
        self._n_compared += len(chunk.env_ids)

    def _buffer_columns(self, chunk: TransitionChunk) -> dict[str, Any]:
        """Convert the columns of a chunk to the buffer's layout."""
        columns = chunk.columns
        buffer_columns: dict[str, Any] = self.hindsight.split(columns) if self.hindsight else dict(columns)
        if self.n_frames > 1:
            for name in OBS_COLUMNS:
                buffer_columns[name] = columns[name].reshape(len(columns[name]), self.n_frames, -1)
        if self.packing is not None:
            buffer_columns |= {name: self.packing.pack(columns[name]) for name in OBS_COLUMNS}
        buffer_columns["env_ids"] = chunk.env_ids if self.buffer.n_envs > 1 else None
        return buffer_columns

    def set_beta(self, elapsed: float) -> None:
        """Set what depends on the finished fraction `elapsed` of the run, such as beta."""
        self._sampling.set_elapsed(self.buffer, elapsed)

    def output_arrays(self, count: int, env_steps: int) -> tuple[dict[str, Any], Transitions[Any]] | None:
        """Return the arrays that `count` batches were drawn into, and the batches that view them.

        `None` until one call of `sample` has drawn `count` batches, if drawn arrays are converted (stacked
        frames, packed integers), and if a plugin draws in its own way.
        """
        out = self._outputs.get(count)
        is_converted = self.n_frames > 1 or self.packing is not None
        if out is None or is_converted or not self._sampling.draws_in_rust(self.buffer):
            return None
        return out[0], Transitions(**out[2], indices=out[0]["indices"], env_steps=env_steps)

    def sample(self, count: int, elapsed: float, env_steps: int) -> Transitions[Any]:
        """Draw `count` batches; `elapsed` is the finished fraction of the run."""
        self.set_beta(elapsed)
        if self.hindsight is not None:
            buffer: Any = self.buffer
            gamma = self._return_settings["gamma"]
            self.last_sample = self.hindsight.sample(buffer, self._batch_size, count, gamma)
            columns = self._columns(self.last_sample)
            return Transitions(**columns, indices=self.last_sample["indices"], env_steps=env_steps)
        out = self._outputs.get(count)
        sample = self._sampling.sample(
            self.buffer, self._batch_size, count, out=out and out[0], **self._return_settings
        )
        if out is None or sample is not out[0]:
            rows = sample if self.packing is None else sample | _unpacked_rows(self.packing, sample)
            out = self._outputs[count] = sample, rows, self._columns(rows)
        self.last_sample = out[1]
        if self.packing is not None:
            for name in OBS_COLUMNS:
                self.packing.unpack(sample[name], self.last_sample[name])
        return Transitions(**out[2], indices=self.last_sample["indices"], env_steps=env_steps)

    def rows_of(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Convert stored observations `[n, ...]` to rows `[n, obs_dim]`."""
        if self.packing is None:
            return stored.reshape(len(stored), -1)
        rows = self.packing.codec.rows(len(stored))
        self.packing.unpack(stored, rows)
        return rows

    def use_one_hot_buffer(self) -> None:
        """Switch to an empty buffer that stores integers one-hot, as earlier versions saved them."""
        if self._make_one_hot_buffer is not None:
            self.buffer, self.full_bytes = self._make_one_hot_buffer()
            self.packing = self._make_one_hot_buffer = None

    def write_columns(self, indices: NDArray[np.uint64], columns: Mapping[str, NDArray[Any]]) -> None:
        """Write columns `[n, ...]` to the rows `indices` `[n]`; `priorities` are absolute errors."""
        for name, values in columns.items():
            if name == "priorities":
                self._sampling.update_priorities(self.buffer, indices, values)
            else:
                self.buffer.update(name, indices, values)

    def _columns(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """Return views of the drawn columns, with stacked frames flattened to rows."""
        names = ("obs", "actions", "rewards", "next_obs", "discounts", "weights")
        columns = {name: sample[name] for name in names if name in sample}
        if self.n_frames > 1:
            for name in OBS_COLUMNS:
                columns[name] = columns[name].reshape(*columns[name].shape[:-2], -1)
        if self.returns_arrays:
            return columns
        import torch

        return {name: torch.from_numpy(column) for name, column in columns.items()}

    def close(self) -> None:
        """Close the environment that computes rewards of goals."""
        if self.hindsight is not None:
            close_or_warn(self.hindsight.env, "the environment that rewards goals")


def make_buffer(
    config: ReplayConfig,
    env: VectorEnv,
    seed: int,
    hindsight: HindsightRelabeler | None = None,
    require_memory: Callable[[int, int], object] = lambda capacity, full: None,
    packing: OneHotPacking | None = None,
) -> tuple[AnyReplayBuffer, int]:
    """Make the buffer that `config` describes for `env`; return it with its bytes when full.

    With `packing` it stores packed observations. Making the buffer may allocate memory for every row, so
    `require_memory(capacity, bytes)` is called first; it raises if they do not fit. `ConfigError` if
    `buffer.memory` holds too few or too many transitions.
    """
    columns: dict[str, Any] = {
        **({"obs_spaces": hindsight.spaces} if hindsight else _obs_arguments(env.observations, packing)),
        "action_shape": env.actions.shape,
        "action_dtype": str(env.actions.dtype),
        "n_envs": env.n_envs,
        "seed": seed,
    }
    sampling = SAMPLINGS[config.name](config)
    probe = sampling.make_buffer(1024 * env.n_envs, columns)
    row_bytes = -(-probe.nbytes // probe.capacity) + _obs_bytes(env.observations, packing)
    rows = config.rows or _rows_in_memory(config, row_bytes, env.n_envs)
    capacity = max(rows // env.n_envs, 1) * env.n_envs
    require_memory(capacity, capacity * row_bytes)
    return sampling.make_buffer(capacity, columns), capacity * row_bytes


def frames_to_share(codec: ObservationCodec) -> int:
    """Return how many frames an image stacks along its first dimension; the buffer stores each frame once.

    If the codec does not declare a stack, the number is guessed from the shape: the first of four dimensions,
    or the first of three if it is the smallest and not 3 (colours). After a wrong guess no frames are shared.
    """
    if len(codec.images) != 1 or codec.numeric_dim or codec.mask_dim:
        return 1
    if codec.n_frames > 1:
        return codec.n_frames
    first, *other_dims = codec.images[0].shape
    if len(other_dims) == 2 and (first >= min(other_dims) or first == 3):
        return 1
    return first if len(other_dims) > 1 else 1


def _obs_arguments(codec: ObservationCodec, packing: OneHotPacking | None) -> dict[str, Any]:
    """Return the buffer's arguments for the shape and dtype of observations."""
    n_frames, dtype = frames_to_share(codec), codec.dtype.name
    if n_frames == 1:
        return {"obs_dim": packing.dim if packing else codec.dim, "obs_dtype": dtype}
    shape = (n_frames, codec.dim // n_frames)
    return {"obs_shape": shape, "obs_dtype": dtype, "frame_stack": (n_frames, "first")}


def _unpacked_rows(packing: OneHotPacking, sample: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Allocate rows for the drawn packed observations."""
    return {name: packing.codec.rows(*sample[name].shape[:-1]) for name in OBS_COLUMNS}


def _obs_bytes(codec: ObservationCodec, packing: OneHotPacking | None) -> int:
    """Return the most memory of one observation in a full buffer; declared stacks share their frames."""
    if packing is not None:
        return packing.row_bytes
    if codec.n_frames == 1 or frames_to_share(codec) == 1:
        return codec.row_bytes
    frame = codec.row_bytes // codec.n_frames
    # its own frame, the frame numbers of its stack, and extra frames at the starts and ends of episodes: one
    # for every 32 observations, the number for episodes of 64 steps
    return frame + frame // 32 + 8 * codec.n_frames


def sampled_bytes(env: VectorEnv, has_goals: bool = False) -> int:
    """Return the bytes of one transition in a batch.

    Observations count twice with hindsight, which replaces their goals. Packed observations are counted in
    addition to the unpacked ones.
    """
    observations = 2 * env.observations.row_bytes * (2 if has_goals else 1)
    if not has_goals and (packing := OneHotPacking.of(env.observations)):
        observations += 2 * packing.row_bytes
    return observations + env.actions.row_bytes + 4 * 8  # reward, discount, flags, weight, index


def _rows_in_memory(config: ReplayConfig, row_bytes: int, n_envs: int) -> int:
    """Return the number of transitions that `config.memory` holds."""
    rows = (config.memory_bytes or 0) // row_bytes
    message = f"buffer.memory={config.memory} holds {rows:,} transitions of {row_bytes} bytes"
    if rows < n_envs:
        raise ConfigError(
            f"{message}, but each environment needs one: expected at least {n_envs * row_bytes} bytes"
        )
    if rows > MAX_CAPACITY:
        largest = MAX_CAPACITY * row_bytes // 10**9
        raise ConfigError(
            f"{message}, but a buffer holds at most {MAX_CAPACITY:,}: expected {largest}GB or less"
        )
    return rows
