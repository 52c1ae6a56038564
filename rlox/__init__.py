"""rlox: reinforcement learning with a Rust data plane and a PyTorch control plane.

`import rlox` is light: names are resolved on first use, and torch is imported only by what needs it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlox._core import (
        HindsightConfig,
        MmapReplayBuffer,
        OfflineDatasetBuffer,
        PrioritizedReplayBuffer,
        ReplayBuffer,
        SequenceReplayBuffer,
        Stream,
        VecEnv,
        compute_gae,
        compute_gae_batched,
        compute_gae_batched_f32,
        compute_gae_time_major,
        native_env_ids,
        prune_replay,
    )
    from rlox.errors import RloxError
    from rlox.gym_vec_env import GymVecEnv

__version__ = "0.1.0"

_HOMES = {
    "GymVecEnv": "rlox.gym_vec_env",
    "HindsightConfig": "rlox._core",
    "MmapReplayBuffer": "rlox._core",
    "OfflineDatasetBuffer": "rlox._core",
    "PrioritizedReplayBuffer": "rlox._core",
    "ReplayBuffer": "rlox._core",
    "RloxError": "rlox.errors",
    "SequenceReplayBuffer": "rlox._core",
    "Stream": "rlox._core",
    "VecEnv": "rlox._core",
    "compute_gae": "rlox._core",
    "compute_gae_batched": "rlox._core",
    "compute_gae_batched_f32": "rlox._core",
    "compute_gae_time_major": "rlox._core",
    "native_env_ids": "rlox._core",
    "prune_replay": "rlox._core",
}

__all__ = [
    "GymVecEnv",
    "HindsightConfig",
    "MmapReplayBuffer",
    "OfflineDatasetBuffer",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "RloxError",
    "SequenceReplayBuffer",
    "Stream",
    "VecEnv",
    "__version__",
    "compute_gae",
    "compute_gae_batched",
    "compute_gae_batched_f32",
    "compute_gae_time_major",
    "native_env_ids",
    "prune_replay",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rlox' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
