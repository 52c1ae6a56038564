"""rlox: reinforcement learning with a Rust data plane and a PyTorch control plane.

`import rlox` is fast: names are resolved on first use, and only code that needs torch imports it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlox._core import (
        Acrobot,
        CartPole,
        DPOPair,
        HindsightConfig,
        MmapReplayBuffer,
        MountainCar,
        MountainCarContinuous,
        OfflineDatasetBuffer,
        Pendulum,
        PrioritizedReplayBuffer,
        ReplayBuffer,
        RunningStats,
        RunningStatsVec,
        SequenceReplayBuffer,
        SingleEnv,
        Stream,
        VecEnv,
        compute_batch_group_advantages,
        compute_batch_token_kl,
        compute_batch_token_kl_schulman,
        compute_gae,
        compute_gae_batched,
        compute_gae_batched_f32,
        compute_gae_time_major,
        compute_group_advantages,
        compute_lambda_returns,
        compute_n_step_returns,
        compute_token_kl,
        compute_token_kl_schulman,
        compute_vtrace,
        native_env_ids,
        num_threads,
        pack_sequences,
        pack_tokens,
        prune_replay,
        set_num_threads,
        unpack_sequences,
    )
    from rlox.collectors.candle import CandleCollector
    from rlox.errors import RloxError
    from rlox.gym_vec_env import GymVecEnv

__version__ = "0.1.0"


def _require_own_folder(site: Path) -> None:
    """Raise `ImportError` if another distribution called `rlox` has files in the package folder in `site`."""
    for distribution in site.glob("rlox-*.dist-info"):
        raise ImportError(
            f"the package {distribution.stem}, another project or an rlox from before its package was called "
            f"rlox-runner, shares the folder {site / 'rlox'} with this one: pip uninstall rlox rlox-runner, "
            "then install this one again",
            name="rlox",
        )


_require_own_folder(Path(__file__).resolve().parents[1])

_MODULE_BY_NAME = {
    "Acrobot": "rlox._core",
    "CandleCollector": "rlox.collectors.candle",
    "CartPole": "rlox._core",
    "DPOPair": "rlox._core",
    "GymVecEnv": "rlox.gym_vec_env",
    "HindsightConfig": "rlox._core",
    "MmapReplayBuffer": "rlox._core",
    "MountainCar": "rlox._core",
    "MountainCarContinuous": "rlox._core",
    "OfflineDatasetBuffer": "rlox._core",
    "Pendulum": "rlox._core",
    "PrioritizedReplayBuffer": "rlox._core",
    "ReplayBuffer": "rlox._core",
    "RloxError": "rlox.errors",
    "RunningStats": "rlox._core",
    "RunningStatsVec": "rlox._core",
    "SequenceReplayBuffer": "rlox._core",
    "SingleEnv": "rlox._core",
    "Stream": "rlox._core",
    "VecEnv": "rlox._core",
    "compute_batch_group_advantages": "rlox._core",
    "compute_batch_token_kl": "rlox._core",
    "compute_batch_token_kl_schulman": "rlox._core",
    "compute_gae": "rlox._core",
    "compute_gae_batched": "rlox._core",
    "compute_gae_batched_f32": "rlox._core",
    "compute_gae_time_major": "rlox._core",
    "compute_group_advantages": "rlox._core",
    "compute_lambda_returns": "rlox._core",
    "compute_n_step_returns": "rlox._core",
    "compute_token_kl": "rlox._core",
    "compute_token_kl_schulman": "rlox._core",
    "compute_vtrace": "rlox._core",
    "native_env_ids": "rlox._core",
    "num_threads": "rlox._core",
    "pack_sequences": "rlox._core",
    "pack_tokens": "rlox._core",
    "prune_replay": "rlox._core",
    "set_num_threads": "rlox._core",
    "unpack_sequences": "rlox._core",
}

__all__ = [
    "Acrobot",
    "CandleCollector",
    "CartPole",
    "DPOPair",
    "GymVecEnv",
    "HindsightConfig",
    "MmapReplayBuffer",
    "MountainCar",
    "MountainCarContinuous",
    "OfflineDatasetBuffer",
    "Pendulum",
    "PrioritizedReplayBuffer",
    "ReplayBuffer",
    "RloxError",
    "RunningStats",
    "RunningStatsVec",
    "SequenceReplayBuffer",
    "SingleEnv",
    "Stream",
    "VecEnv",
    "__version__",
    "compute_batch_group_advantages",
    "compute_batch_token_kl",
    "compute_batch_token_kl_schulman",
    "compute_gae",
    "compute_gae_batched",
    "compute_gae_batched_f32",
    "compute_gae_time_major",
    "compute_group_advantages",
    "compute_lambda_returns",
    "compute_n_step_returns",
    "compute_token_kl",
    "compute_token_kl_schulman",
    "compute_vtrace",
    "native_env_ids",
    "num_threads",
    "pack_sequences",
    "pack_tokens",
    "prune_replay",
    "set_num_threads",
    "unpack_sequences",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module 'rlox' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_BY_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
