"""DQN: replayed transitions, a target network, learned priorities."""

from __future__ import annotations

from rlox.algorithms import DQN

from . import AlgorithmSpec
from .ppo import IMAGE, MASKED, NORMALISED

SMALL = {"learning_starts": 60, "train_freq": 16, "gradient_steps": 4, "batch_size": 8,
         "backend": "torch"}  # fmt: skip

SPEC = AlgorithmSpec(
    facade=DQN,
    small={
        "env_id": "CartPole-v1",
        "n_envs": 2,
        "seed": 2,
        "buffer_size": 128,
        "target_update_interval": 40,
        "net_arch": (16, 16),
        "anneal_lr": True,
        **SMALL,
    },
    cases={
        "uniform": {},
        "prioritized, double, dueling, three steps": {
            "prioritized": True,
            "double_dqn": True,
            "dueling": True,
            "n_step": 3,
        },
        "native, prioritized, double, dueling, three steps": {
            "backend": "native",
            "prioritized": True,
            "double_dqn": True,
            "dueling": True,
            "n_step": 3,
        },
        "discrete normalised": {"prioritized": True, "n_step": 2, "tau": 0.5, **NORMALISED},
        "masked, normalised": {
            "prioritized": True,
            "n_step": 3,
            "double_dqn": True,
            **MASKED,
            **NORMALISED,
        },
        "one update at a time": {"n_envs": 1, "train_freq": 1, "gradient_steps": 1},
        "replay ratio, many environments": {"n_envs": 5, "gradient_steps": 1, "replay_ratio": 0.4},
        "noisy, double": {"noisy": True, "double_dqn": True, "tau": 0.5},
        "atoms, dueling, two steps": {
            "distribution": "categorical",
            "n_atoms": 11,
            "v_min": 0.0,
            "v_max": 20.0,
            "dueling": True,
            "n_step": 2,
        },
        "quantiles, noisy, prioritized": {
            "distribution": "quantile",
            "n_quantiles": 8,
            "noisy": True,
            "prioritized": True,
        },
        "an image and a vector": IMAGE,
    },
    total=400,
    probe={
        "learning_rate": 5e-3,
        "learning_starts": 100,
        "train_freq": 8,
        "gradient_steps": 4,
        "batch_size": 32,
        "buffer_size": 2_000,
        "target_update_interval": 40,
        "exploration_final_eps": 0.3,
        "net_arch": (16,),
    },
    probe_total=1_500,
    value=lambda policy, obs: policy(obs).amax(-1),
    vectors=False,
    steady={"anneal_lr": False, "exploration_fraction": 1e-6},
    tiny={"net_arch": (4,), "buffer_size": 64},
    leaf_cases={"discrete normalised": 180},
    without_effect={
        "discrete normalised: state/source/env/elapsed": "counts towards the 500-step limit, which "
        "is out of reach here",
        "discrete normalised: state/source/buffer/rows/tree": "bits of priorities, of which the last "
        "one is changed",
        "discrete normalised: state/source/learns_from": "the warm-up is over",
    },
)
