"""Hybrid PPO: PPO's updates on rollouts that Rust collects from native environments."""

from __future__ import annotations

from rlox.algorithms import HybridPPO

from . import AlgorithmSpec
from .ppo import NORMALISED

SPEC = AlgorithmSpec(
    facade=HybridPPO,
    small={"n_envs": 4, "seed": 2, "n_steps": 50, "n_epochs": 2, "anneal_lr": True},
    cases={
        "discrete": {"env_id": "CartPole-v1"},
        "box": {"env_id": "Pendulum-v1"},
        "gsde": {"env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4},
        "box normalised": {"env_id": "Pendulum-v1", **NORMALISED},
    },
    total=1600,
    steady={"anneal_lr": False},
    leaf_cases={},  # the state equals that of PPO with the native engine
)
