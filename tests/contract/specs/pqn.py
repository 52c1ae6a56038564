"""PQN: epsilon-greedy rollouts, no replay buffer, no target network."""

from __future__ import annotations

from rlox.algorithms import PQN

from . import AlgorithmSpec
from .ppo import IMAGE, MASKED, NORMALISED

SPEC = AlgorithmSpec(
    facade=PQN,
    small={
        "env_id": "CartPole-v1",
        "n_envs": 4,
        "seed": 2,
        "n_steps": 10,
        "batch_size": 16,
        "n_epochs": 2,
        "net_arch": (16, 16),
    },
    cases={
        "discrete normalised": NORMALISED,
        "masked, normalised": {**MASKED, **NORMALISED},
        "an image and a vector": IMAGE,
    },
    total=400,
    probe={
        "n_envs": 4,
        "n_steps": 16,
        "batch_size": 16,
        "learning_rate": 1e-2,
        "exploration_final_eps": 0.3,
        "net_arch": (16,),
    },
    probe_total=6_000,
    vectors=False,
    steady={"anneal_lr": False, "exploration_fraction": 1e-6},
    tiny={"n_envs": 2, "n_steps": 30, "net_arch": (4,)},
    leaf_cases={"discrete normalised": 180},
    without_effect={
        "discrete normalised: state/source/env/elapsed": "counts towards the 500-step limit, which "
        "is out of reach here",
    },
)
