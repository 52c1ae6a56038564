"""Replay buffers of this process behind one interface."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.replay import Array, Rows, Trajectory

Operation = Callable[[], Any]


@dataclass(frozen=True)
class Shape:
    """What a buffer holds."""

    capacity: int
    obs: tuple[int, ...]
    dtype: str
    act_dim: int

    @classmethod
    def of(cls, trajectory: Trajectory, capacity: int) -> Shape:
        """The columns of a trajectory."""
        pool = trajectory.pool
        return cls(capacity, pool.shape[1:], pool.dtype.name, trajectory.actions.shape[1])


class Ours:
    """`rlox.ReplayBuffer`; with `reused` it samples into the arrays of its first batch."""

    def __init__(self, shape: Shape, *, reused: bool = False, frame_stack: bool = False) -> None:
        import rlox

        more = {"frame_stack": (shape.obs[0], "first")} if frame_stack else {}
        self.buffer = rlox.ReplayBuffer(
            shape.capacity,
            obs_shape=shape.obs,
            obs_dtype=shape.dtype,
            act_dim=shape.act_dim,
            **more,
        )
        self._reused = reused

    def push(self, row: Rows) -> Operation:
        """`push`."""
        push, given = self.buffer.push, single_arguments(row)
        return lambda: push(*given)

    def push_batch(self, rows: Rows) -> Operation:
        """`push_batch`."""
        push, given = self.buffer.push_batch, tuple(vars(rows).values())
        return lambda: push(*given)

    def sample(self, size: int) -> Operation:
        """`sample` with a new seed each time."""
        sample, seeds = self.buffer.sample, itertools.count()
        if not self._reused:
            return lambda: sample(size, next(seeds))
        out = sample(size)
        return lambda: sample(size, next(seeds), out=out)

    def read(self, batch: Any) -> tuple[Array, Array, Array]:
        """Copies: the next batch may overwrite this one."""
        return batch["obs"].copy(), batch["next_obs"].copy(), batch["rewards"].copy()


def single_arguments(row: Rows) -> tuple[Any, ...]:
    """obs, action, reward, terminated, truncated, next_obs, the numbers as Python's."""
    flags = bool(row.terminated), bool(row.truncated)
    return row.obs, row.actions, float(row.rewards), *flags, row.next_obs


class OursPrioritized(Ours):
    """`rlox.PrioritizedReplayBuffer`, alpha 0.6 and beta 0.4."""

    def __init__(self, shape: Shape) -> None:
        import rlox

        super().__init__(Shape(1, shape.obs, shape.dtype, shape.act_dim))
        self.buffer = rlox.PrioritizedReplayBuffer(
            shape.capacity, shape.obs[0], shape.act_dim, 0.6, 0.4
        )

    def cycle(self, priorities: Array) -> Operation:
        """A batch, and new priorities for it."""
        draw, update = self.sample(len(priorities)), self.buffer.update_priorities
        return lambda: update(draw()["indices"], priorities)


class SB3:
    """Stable-Baselines3's buffer of NumPy arrays, which knows single transitions only."""

    def __init__(self, shape: Shape) -> None:
        from gymnasium.spaces import Box
        from stable_baselines3.common.buffers import ReplayBuffer

        dtype = np.dtype(shape.dtype)
        space = Box(0, 255, shape.obs, dtype.type)
        action = Box(-1.0, 1.0, (shape.act_dim,), np.float32)
        self.buffer = ReplayBuffer(shape.capacity, space, action, "cpu")

    def push(self, row: Rows) -> Operation:
        """`add`."""
        add = self.buffer.add
        arrays = [np.asarray(a)[None] for a in (row.obs, row.next_obs, row.actions)]
        given = (*arrays, row.rewards[None], row.terminated[None], [{}])
        return lambda: add(*given)

    def push_batch(self, rows: Rows) -> Operation:
        """`add` of one after the other."""
        singles = [
            self.push(Rows(*(column[i] for column in vars(rows).values())))
            for i in range(len(rows.rewards))
        ]

        def add() -> None:
            for single in singles:
                single()

        return add

    def sample(self, size: int) -> Operation:
        """`sample`."""
        sample = self.buffer.sample
        return lambda: sample(size)

    def read(self, batch: Any) -> tuple[Array, Array, Array]:
        """Tensors as arrays."""
        parts = batch.observations, batch.next_observations, batch.rewards
        return parts[0].numpy(), parts[1].numpy(), parts[2].numpy()


class TorchRL:
    """TorchRL's buffer over a `LazyTensorStorage`, its transitions made before."""

    def __init__(self, shape: Shape) -> None:
        from torchrl.data import LazyTensorStorage, ReplayBuffer

        self.buffer = ReplayBuffer(storage=LazyTensorStorage(shape.capacity))

    def push(self, row: Rows) -> Operation:
        """`add`."""
        add, given = self.buffer.add, tensors(row, [])
        return lambda: add(given)

    def push_batch(self, rows: Rows) -> Operation:
        """`extend`."""
        extend, given = self.buffer.extend, tensors(rows, [len(rows.rewards)])
        return lambda: extend(given)

    def sample(self, size: int) -> Operation:
        """`sample`."""
        sample = self.buffer.sample
        return lambda: sample(size)

    def read(self, batch: Any) -> tuple[Array, Array, Array]:
        """Tensors as arrays."""
        return batch["obs"].numpy(), batch["next_obs"].numpy(), batch["rewards"].numpy()


class TorchRLPrioritized(TorchRL):
    """TorchRL's prioritized buffer, alpha 0.6 and beta 0.4."""

    def __init__(self, shape: Shape) -> None:
        from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

        self.buffer = TensorDictPrioritizedReplayBuffer(
            alpha=0.6, beta=0.4, storage=LazyTensorStorage(shape.capacity)
        )

    def cycle(self, priorities: Array) -> Operation:
        """A batch, and new priorities for it."""
        import torch

        draw, update = self.sample(len(priorities)), self.buffer.update_priority
        given = torch.from_numpy(priorities.astype(np.float32))
        return lambda: update(draw()["index"], given)


def tensors(rows: Rows, size: list[int]) -> Any:
    """Rows as a TensorDict."""
    import torch
    from tensordict import TensorDict

    columns = {name: torch.as_tensor(np.array(a)) for name, a in vars(rows).items()}
    return TensorDict(columns, batch_size=size)
