"""Memory shared by a run and its workers: one row per environment for all data of a step."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.parts_codec import codec_of
from rlox.envs.spaces import ObservationCodec

__all__ = ["SharedArrays", "codecs_of", "new_memory"]

_LINE = 64  # bytes of a cache line: arrays begin at its multiples


def new_memory() -> int:
    """Create an unnamed file in memory; it is freed with the last process that has it open."""
    if sys.platform == "linux":
        return os.memfd_create("rlox-envs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def codecs_of(
    observations: gym.Space[Any], actions: gym.Space[Any], name: str
) -> tuple[ObservationCodec, ActionCodec]:
    """Make the codecs with which both sides write observations and read actions of the environment `name`."""
    return codec_of(observations, name), ActionCodec.of(actions, name)


class SharedArrays:
    """Arrays `[n_envs, ...]` in the memory of `fd`.

    A worker writes the rows of its environments. The run's process writes the actions, and the rewards and
    flags of lost steps. `obs` is the policy's next input, `final_obs` the final observation of an episode
    that has ended. `is_busy` marks the environments whose call had begun but not returned when a process died
    or hung.
    """

    def __init__(self, fd: int, n_envs: int, observations: ObservationCodec, actions: ActionCodec) -> None:
        specs = list(_array_specs(n_envs, observations, actions))
        sizes = [-(-_byte_size(*spec) // _LINE) * _LINE for spec in specs]
        if os.fstat(fd).st_size < sum(sizes):
            os.ftruncate(fd, sum(sizes))
        memory = mmap.mmap(fd, sum(sizes))
        offsets = [sum(sizes[:k]) for k in range(len(sizes))]
        arrays: list[NDArray[Any]] = [
            np.ndarray(shape, dtype, memory, offset)
            for (shape, dtype), offset in zip(specs, offsets, strict=True)
        ]
        self.actions, self.obs, self.final_obs = arrays[:3]
        self.rewards, self.terminated, self.truncated, self.is_busy = arrays[3:]


ArraySpec = tuple[tuple[int, ...], np.dtype[Any]]


def _array_specs(n: int, observations: ObservationCodec, actions: ActionCodec) -> Iterator[ArraySpec]:
    """Yield shape and dtype of each array, in the order of the memory."""
    yield (n, *actions.shape), actions.dtype
    yield from [((n, observations.dim), observations.dtype)] * 2
    yield (n,), np.dtype(np.float64)
    yield from [((n,), np.dtype(np.bool_))] * 3


def _byte_size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
