"""The replay buffers of this process behind one interface."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.replay import Array, Rows, Trajectory

Operation = Callable[[], Any]


@dataclass(frozen=True)
class BufferShape:
    """The sizes and types of a buffer."""

    capacity: int
    obs: tuple[int, ...]
    dtype: str
    act_dim: int

    @classmethod
    def of(cls, trajectory: Trajectory, capacity: int) -> BufferShape:
        """Return the shape for the columns of a trajectory."""
        pool = trajectory.pool
        return cls(capacity, pool.shape[1:], pool.dtype.name, trajectory.actions.shape[1])


class RloxBuffer:
    """`rlox.ReplayBuffer`; with `reuse_arrays` it samples into the arrays of its first batch."""

    def __init__(self, shape: BufferShape, *, reuse_arrays: bool = False, frame_stack: bool = False) -> None:
        import rlox

        options = {"frame_stack": (shape.obs[0], "first")} if frame_stack else {}
        self.buffer = rlox.ReplayBuffer(
            shape.capacity,
            obs_shape=shape.obs,
            obs_dtype=shape.dtype,
            act_dim=shape.act_dim,
            **options,
        )
        self._reuse_arrays = reuse_arrays

    def push(self, row: Rows) -> Operation:
        """Call `push`."""
        push, arguments = self.buffer.push, push_arguments(row)
        return lambda: push(*arguments)

    def push_batch(self, rows: Rows) -> Operation:
        """Call `push_batch`."""
        push, arguments = self.buffer.push_batch, tuple(vars(rows).values())
        return lambda: push(*arguments)

    def sample(self, size: int) -> Operation:
        """Call `sample` with a new seed each time."""
        sample, seeds = self.buffer.sample, itertools.count()
        if not self._reuse_arrays:
            return lambda: sample(size, next(seeds))
        out = sample(size)
        return lambda: sample(size, next(seeds), out=out)

    def read(self, batch: Any) -> tuple[Array, Array, Array]:
        """Return copies, because the next batch may overwrite this one."""
        return batch["obs"].copy(), batch["next_obs"].copy(), batch["rewards"].copy()


def push_arguments(row: Rows) -> tuple[Any, ...]:
    """Return obs, action, reward, terminated, truncated, next_obs; the numbers are Python's."""
    flags = bool(row.terminated), bool(row.truncated)
    return row.obs, row.actions, float(row.rewards), *flags, row.next_obs


class RloxPrioritizedBuffer(RloxBuffer):
    """`rlox.PrioritizedReplayBuffer` with alpha 0.6 and beta 0.4."""

    def __init__(self, shape: BufferShape) -> None:
        import rlox

        super().__init__(BufferShape(1, shape.obs, shape.dtype, shape.act_dim))
        self.buffer = rlox.PrioritizedReplayBuffer(shape.capacity, shape.obs[0], shape.act_dim, 0.6, 0.4)

    def sample_and_update(self, priorities: Array) -> Operation:
        """Sample a batch and update its priorities."""
        draw, update = self.sample(len(priorities)), self.buffer.update_priorities
        return lambda: update(draw()["indices"], priorities)


class SB3Buffer:
    """Stable-Baselines3's buffer of NumPy arrays, which stores only single transitions."""

    def __init__(self, shape: BufferShape) -> None:
        from gymnasium.spaces import Box
        from stable_baselines3.common.buffers import ReplayBuffer

        dtype = np.dtype(shape.dtype)
        space = Box(0, 255, shape.obs, dtype.type)
        action = Box(-1.0, 1.0, (shape.act_dim,), np.float32)
        self.buffer = ReplayBuffer(shape.capacity, space, action, "cpu")

    def push(self, row: Rows) -> Operation:
        """Call `add`."""
        add = self.buffer.add
        arrays = [np.asarray(a)[None] for a in (row.obs, row.next_obs, row.actions)]
        arguments = (*arrays, row.rewards[None], row.terminated[None], [{}])
        return lambda: add(*arguments)

    def push_batch(self, rows: Rows) -> Operation:
        """Call `add` for each row."""
        singles = [
            self.push(Rows(*(column[i] for column in vars(rows).values()))) for i in range(len(rows.rewards))
        ]

        def add() -> None:
            for single in singles:
                single()

        return add

    def sample(self, size: int) -> Operation:
        """Call `sample`."""
        sample = self.buffer.sample
        return lambda: sample(size)

    def read(self, batch: Any) -> tuple[Array, Array, Array]:
        """Return the tensors as arrays."""
        parts = batch.observations, batch.next_observations, batch.rewards
        return parts[0].numpy(), parts[1].numpy(), parts[2].numpy()


class TorchRLBuffer:
    """TorchRL's buffer over a `LazyTensorStorage`; its transitions are made beforehand."""

    def __init__(self, shape: BufferShape) -> None:
        from torchrl.data import LazyTensorStorage, ReplayBuffer

        self.buffer = ReplayBuffer(storage=LazyTensorStorage(shape.capacity))

    def push(self, row: Rows) -> Operation:
        """Call `add`."""
        add, arguments = self.buffer.add, to_tensordict(row, [])
        return lambda: add(arguments)

    def push_batch(self, rows: Rows) -> Operation:
        """Call `extend`."""
        extend, arguments = self.buffer.extend, to_tensordict(rows, [len(rows.rewards)])
        return lambda: extend(arguments)

    def sample(self, size: int) -> Operation:
        """Call `sample`."""
        sample = self.buffer.sample
        return lambda: sample(size)

    def read(self, batch: Any) -> tuple[Array, Array, Array]:
        """Return the tensors as arrays."""
        return batch["obs"].numpy(), batch["next_obs"].numpy(), batch["rewards"].numpy()


class TorchRLPrioritizedBuffer(TorchRLBuffer):
    """TorchRL's prioritized buffer with alpha 0.6 and beta 0.4."""

    def __init__(self, shape: BufferShape) -> None:
        from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

        self.buffer = TensorDictPrioritizedReplayBuffer(
            alpha=0.6, beta=0.4, storage=LazyTensorStorage(shape.capacity)
        )

    def sample_and_update(self, priorities: Array) -> Operation:
        """Sample a batch and update its priorities."""
        import torch

        draw, update = self.sample(len(priorities)), self.buffer.update_priority
        arguments = torch.from_numpy(priorities.astype(np.float32))
        return lambda: update(draw()["index"], arguments)


def to_tensordict(rows: Rows, size: list[int]) -> Any:
    """Return rows as a TensorDict."""
    import torch
    from tensordict import TensorDict

    columns = {name: torch.as_tensor(np.array(a)) for name, a in vars(rows).items()}
    return TensorDict(columns, batch_size=size)
