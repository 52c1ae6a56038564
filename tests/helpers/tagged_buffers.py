"""Buffers of every kind with identifiable rows: each number of a row follows from its tag.

The row of environment e at its step t has a unique tag; the observation after it has the next tag. Episodes
of nine rows begin 20 tags apart. So any output of a buffer shows its origin, and bytes that were never pushed
are visible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import rlox

EPISODE = 9
LATENT = {"latent": ("float32", (2,)), "count": ("int64", ())}
Encode = Callable[[int, int], Any]


def tag(env: int, t: int) -> int:
    """Return the tag of a row; its next observation has the next tag."""
    episode, step = divmod(t, EPISODE)
    return 1_000 * env + 20 * episode + step + 1


def numbers(k: int, first: int) -> np.ndarray:
    """Return float32 `[3]`."""
    return np.array([k, k / 2, -k], np.float32)


def frame(k: int) -> np.ndarray:
    """Return uint8 `[4]`."""
    return np.array([k % 256, k // 256, 77, k * 7 % 256], np.uint8)


def stack_first(k: int, first: int) -> np.ndarray:
    """Return three frames `[3, 4]`; early in an episode the first one is repeated."""
    return np.stack([frame(max(k - back, first)) for back in (2, 1, 0)])


def stack_last(k: int, first: int) -> np.ndarray:
    """Return three frames `[2, 2, 3]`."""
    return np.moveaxis(stack_first(k, first).reshape(3, 2, 2), 0, -1)


def mapping(k: int, first: int) -> dict[str, np.ndarray]:
    return {"pixels": stack_first(k, first), "speed": np.array([k, -k], np.float64)}


def row(encode: Encode, env: int, t: int, latent: bool) -> dict[str, Any]:
    """Return the arguments of `push` for one row."""
    k = tag(env, t)
    first, ended = k - t % EPISODE, t % EPISODE == EPISODE - 1
    terminal = ended and t // EPISODE % 2 == 0
    arguments = {
        "obs": encode(k, first), "action": np.float32([k]), "reward": float(k),
        "terminated": terminal, "truncated": ended and not terminal,
        "next_obs": encode(k + 1, first),
    }  # fmt: skip
    return arguments | ({"extra": {"latent": np.float32([k, k + 0.5]), "count": k}} if latent else {})


@dataclass(frozen=True)
class Kind:
    """A buffer with the rows to push into it."""

    kind: Any
    encode: Encode
    settings: dict[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] = (60,)
    pushed: tuple[int, ...] = (75,)
    """Number of rows of each environment."""

    @property
    def n_envs(self) -> int:
        return len(self.pushed)

    @property
    def tiered(self) -> bool:
        return self.kind is rlox.MmapReplayBuffer

    def make(self, folder: Path, seed: int = 5) -> Any:
        """Return a buffer without new rows; a buffer on disk continues with the rows in `folder`."""
        arguments = {"action_shape": (1,), "n_envs": self.n_envs, "seed": seed} | self.settings
        if self.tiered:
            arguments["cold_path"] = folder
        return self.kind(*self.sizes, **arguments)

    def row(self, env: int, t: int) -> dict[str, Any]:
        """Return the row of environment `env` at its step `t`; some rows lack `next_obs`.

        A buffer takes it from the next row.
        """
        one = row(self.encode, env, t, "extra_columns" in self.settings)
        if t % 3 == 2 and t % EPISODE != EPISODE - 1:
            del one["next_obs"]
        return one

    def push(self, buffer: Any, env: int, t: int) -> None:
        one = self.row(env, t)
        many = {"action": "actions", "reward": "rewards"}
        batch = {many.get(key, key): lead(value) for key, value in one.items()}
        buffer.push_batch(**batch, env_ids=[env])

    def fill(self, buffer: Any, begin: float = 0.0, end: float = 1.0) -> None:
        """Push part of the rows, the environments in turn."""
        for t in range(max(self.pushed)):
            for env, count in enumerate(self.pushed):
                if int(begin * count) <= t < int(end * count):
                    self.push(buffer, env, t)

    def held_indices(self) -> np.ndarray:
        """Return the indices of the rows held after `fill`, uint64."""
        each = self.sizes[-1] // self.n_envs
        rows = [
            t * self.n_envs + env
            for env, count in enumerate(self.pushed)
            for t in range(max(count - each, 0), count)
        ]
        return np.array(rows, np.uint64)


def lead(value: Any) -> Any:
    """Add an axis of length 1 in front."""
    if isinstance(value, dict):
        return {key: lead(part) for key, part in value.items()}
    return np.asarray(value)[None]


PIXELS = {"obs_shape": (3, 4), "obs_dtype": "uint8", "frame_stack": (3, "first")}
LAST = {"obs_shape": (2, 2, 3), "obs_dtype": "uint8", "frame_stack": (3, "last")}
SPACES = {
    "obs_spaces": {"pixels": ("uint8", (3, 4)), "speed": ("float64", (2,))},
    "frame_stack": {"pixels": (3, "first")},
}
FLAT = {"obs_dim": 3}
RINGS = {
    "plain": Kind(rlox.ReplayBuffer, numbers, FLAT),
    "dict": Kind(rlox.ReplayBuffer, mapping, SPACES),
    "stack_first": Kind(rlox.ReplayBuffer, stack_first, PIXELS),
    "stack_last": Kind(rlox.ReplayBuffer, stack_last, LAST),
    "three_envs": Kind(rlox.ReplayBuffer, numbers, FLAT | {"extra_columns": LATENT}, pushed=(25, 14, 31)),
    "prioritized": Kind(rlox.PrioritizedReplayBuffer, numbers, FLAT | {"alpha": 0.7}),
    "sequence": Kind(rlox.SequenceReplayBuffer, mapping, SPACES, pushed=(37, 22)),
}
TIERED = {
    "mmap": Kind(rlox.MmapReplayBuffer, numbers, FLAT | {"extra_columns": LATENT}, (12, 60), (41, 17)),
    "mmap_stack": Kind(rlox.MmapReplayBuffer, stack_first, PIXELS, (12, 60), (76,)),
    "mmap_stack_last": Kind(rlox.MmapReplayBuffer, stack_last, LAST, (12, 60), (76,)),
}


def dataset(rows: int = 40, normalize: bool = False, seed: int = 5, real: bool = True) -> Any:
    """Return an `OfflineDatasetBuffer` of tagged rows, or of zeros for a test that loads into it."""
    one = [row(numbers, 0, t, False) for t in range(rows)]
    names = ("obs", "next_obs", "action", "reward", "terminated", "truncated")
    arrays = [np.array([part[name] for part in one]) for name in names]
    arrays[3] = arrays[3].astype(np.float32)
    if not real:
        arrays = [np.zeros_like(array) for array in arrays]
    return rlox.OfflineDatasetBuffer(*arrays, normalize=normalize, seed=seed)
