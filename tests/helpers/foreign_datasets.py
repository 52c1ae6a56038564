"""Datasets for tests of foreign formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rlox.envs.space_json import space_to_json
from rlox.runs.record import make_dataset, write_dataset
from rlox.sources.dataset_file import Dataset, read_dataset

SUFFIX = {"d4rl": ".hdf5", "npz": ".npz", "parquet": ".parquet", "minari": ""}


def columns(n: int = 120, obs: tuple[int, ...] = (3,), action: Any = (2,)) -> dict[str, Any]:
    """Return columns of episodes of 25 steps: terminations and truncations alternate; the last one is open.

    `action` is the shape of vectors, or the number of choices.
    """
    rng = np.random.default_rng(n)
    observations = rng.normal(size=(n + 1, *obs)).astype(np.float32)
    step = np.arange(n) % 50
    ends = (step == 24) | (step == 49)
    after = observations[1:].copy()
    after[ends] += 1.0  # the next episode begins elsewhere
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
    """Write one to disk."""
    write_dataset(make_dataset(columns(**kind), about or {"env": "Some-v0"}), folder)
    return read_dataset(folder, max_bytes=0)


def spaces_metadata(observation: Any, action: Any) -> dict[str, str]:
    """Return a dataset's metadata of its spaces."""
    return {"observation_space": space_to_json(observation), "action_space": space_to_json(action)}
