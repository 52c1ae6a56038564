"""Datasets to be written in the formats of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rlox.envs.space_json import space_to_json
from rlox.runs.record import make_dataset, write_dataset
from rlox.sources.dataset_file import Dataset, read_dataset

SUFFIX = {"d4rl": ".hdf5", "npz": ".npz", "parquet": ".parquet", "minari": ""}


def columns(n: int = 120, obs: tuple[int, ...] = (3,), action: Any = (2,)) -> dict[str, Any]:
    """Episodes of 25 steps: one terminates, one is cut off, and so on; the last goes on.

    `action` is the shape of vectors, or among how many choices there are.
    """
    rng = np.random.default_rng(n)
    observations = rng.normal(size=(n + 1, *obs)).astype(np.float32)
    step = np.arange(n) % 50
    ends = (step == 24) | (step == 49)
    after = observations[1:].copy()
    after[ends] += 1.0  # what an episode ended with is not where the next begins
    vectors = isinstance(action, tuple)
    return {
        "obs": observations[:-1],
        "next_obs": after,
        "actions": rng.uniform(-1, 1, (n, *action)).astype("f4") if vectors else rng.integers(0, action, n),
        "rewards": rng.normal(size=n).astype(np.float32),
        "terminated": step == 24,
        "truncated": step == 49,
    }


def dataset(folder: Path, about: dict[str, Any] | None = None, **kind: Any) -> Dataset:
    """One on disk."""
    write_dataset(make_dataset(columns(**kind), about or {"env": "Some-v0"}), folder)
    return read_dataset(folder, max_bytes=0)


def spaces_metadata(observation: Any, action: Any) -> dict[str, str]:
    """What a dataset says of its spaces."""
    return {"observation_space": space_to_json(observation), "action_space": space_to_json(action)}
