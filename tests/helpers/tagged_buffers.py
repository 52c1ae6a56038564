"""Buffers of every kind whose rows say which they are: each number of a row follows from its tag.

The row of environment e at its step t has a tag of its own, the observation it led to the tag after it,
and episodes of nine rows begin 20 tags apart. So whatever comes out of a buffer tells where it belongs,
and bytes that nobody pushed stand out.
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
    """The tag of a row; the observation it led to has the next one."""
    episode, step = divmod(t, EPISODE)
    return 1_000 * env + 20 * episode + step + 1


def numbers(k: int, first: int) -> np.ndarray:
    """float32 `[3]`."""
    return np.array([k, k / 2, -k], np.float32)


def frame(k: int) -> np.ndarray:
    """uint8 `[4]`."""
    return np.array([k % 256, k // 256, 77, k * 7 % 256], np.uint8)


def stack_first(k: int, first: int) -> np.ndarray:
    """Three frames `[3, 4]`, the first one repeated where the episode is younger."""
    return np.stack([frame(max(k - back, first)) for back in (2, 1, 0)])


def stack_last(k: int, first: int) -> np.ndarray:
    """Three frames `[2, 2, 3]`."""
    return np.moveaxis(stack_first(k, first).reshape(3, 2, 2), 0, -1)


def mapping(k: int, first: int) -> dict[str, np.ndarray]:
    return {"pixels": stack_first(k, first), "speed": np.array([k, -k], np.float64)}


def row(encode: Encode, env: int, t: int, latent: bool) -> dict[str, Any]:
    """The arguments of `push` for one row."""
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
    """A buffer and what is pushed into it."""

    kind: Any
    encode: Encode
    settings: dict[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] = (60,)
    pushed: tuple[int, ...] = (75,)
    """Rows of each environment."""

    @property
    def n_envs(self) -> int:
        return len(self.pushed)

    @property
    def tiered(self) -> bool:
        return self.kind is rlox.MmapReplayBuffer

    def make(self, folder: Path, seed: int = 5) -> Any:
        """A buffer without rows of its own; on disk it goes on with those in `folder`."""
        arguments = {"action_shape": (1,), "n_envs": self.n_envs, "seed": seed} | self.settings
        if self.tiered:
            arguments["cold_path"] = folder
        return self.kind(*self.sizes, **arguments)

    def row(self, env: int, t: int) -> dict[str, Any]:
        """The row of environment `env` at its step `t`; some leave `next_obs` to the next row."""
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
        """Pushes part of the rows, the environments in turn."""
        for t in range(max(self.pushed)):
            for env, count in enumerate(self.pushed):
                if int(begin * count) <= t < int(end * count):
                    self.push(buffer, env, t)

    def held_indices(self) -> np.ndarray:
        """Indices of the rows held after `fill`, uint64."""
        each = self.sizes[-1] // self.n_envs
        rows = [
            t * self.n_envs + env
            for env, count in enumerate(self.pushed)
            for t in range(max(count - each, 0), count)
        ]
        return np.array(rows, np.uint64)


def lead(value: Any) -> Any:
    """With an axis of length 1 in front."""
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
    """An `OfflineDatasetBuffer` of tagged rows, or of zeros, to be loaded into."""
    one = [row(numbers, 0, t, False) for t in range(rows)]
    names = ("obs", "next_obs", "action", "reward", "terminated", "truncated")
    arrays = [np.array([part[name] for part in one]) for name in names]
    arrays[3] = arrays[3].astype(np.float32)
    if not real:
        arrays = [np.zeros_like(array) for array in arrays]
    return rlox.OfflineDatasetBuffer(*arrays, normalize=normalize, seed=seed)
