"""A2C: short rollouts, one step of RMSprop on each."""

from __future__ import annotations

from rlox.algorithms import A2C

from . import AlgorithmSpec
from .ppo import MASKED, NORMALISED

SPEC = AlgorithmSpec(
    facade=A2C,
    small={"n_envs": 4, "seed": 2, "n_steps": 10, "anneal_lr": True, "backend": "torch"},
    cases={
        "discrete normalised": {"env_id": "CartPole-v1", **NORMALISED},
        "box normalised": {"env_id": "Pendulum-v1", **NORMALISED},
        "gsde": {"env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4},
        "masked, normalised": {**MASKED, **NORMALISED},
        "native, masked, normalised": {**MASKED, **NORMALISED, "backend": "native"},
        "tensorflow's rule": {"env_id": "CartPole-v1", "rms_prop_tf_like": True},
    },
    total=400,
    factored=True,
    probe={"n_envs": 4, "learning_rate": 1e-2, "anneal_lr": True, "net_arch": (16,)},
    probe_total=6_000,
    steady={"anneal_lr": False},
    tiny={"n_envs": 2, "n_steps": 30, "net_arch": (4,)},
    without_effect={
        "discrete normalised: state/source/env/elapsed": "counts towards the 500-step limit, which "
        "is out of reach here",
        "discrete normalised: optimizer/steps": "RMSprop corrects no bias",
        "box normalised: optimizer/steps": "RMSprop corrects no bias",
    },
)
