"""Rainbow: all of DQN's extensions together, and without some of them."""

from __future__ import annotations

from rlox.algorithms import Rainbow

from . import AlgorithmSpec
from .dqn import SMALL
from .ppo import NORMALISED

SPEC = AlgorithmSpec(
    facade=Rainbow,
    small={
        "env_id": "CartPole-v1",
        "n_envs": 2,
        "seed": 2,
        "buffer_size": 128,
        "target_update_interval": 40,
        "net_arch": (16, 16),
        "n_atoms": 11,
        "v_min": 0.0,
        "v_max": 50.0,
        "learning_rate": 1e-3,
        **SMALL,
    },
    cases={
        "all parts": {},
        "discrete normalised": NORMALISED,
        "falling step size, one at a time": {
            "anneal_lr": True,
            "n_envs": 1,
            "train_freq": 1,
            "gradient_steps": 1,
        },
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
        "net_arch": (16,),
        "v_min": -2.0,
        "v_max": 12.0,
        "n_atoms": 29,
    },
    probe_total=1_500,
    value=lambda policy, obs: policy(obs).amax(-1),
    vectors=False,
    steady={"beta": 1.0},
    tiny={"net_arch": (4,), "buffer_size": 64, "n_atoms": 5, "gradient_steps": 1},
    leaf_cases={"discrete normalised": 180},
    leaf_more=240,
    without_effect={
        "discrete normalised: state/source/env/elapsed": "counts towards the 500-step limit, which "
        "is out of reach here",
        "discrete normalised: state/source/buffer/rows/tree": "bits of priorities, of which the last "
        "one is changed",
        "discrete normalised: state/source/learns_from": "the warm-up is over",
    },
)
