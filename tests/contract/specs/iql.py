"""IQL: values of a dataset's actions, no step of an environment."""

from __future__ import annotations

from rlox.algorithms import IQL

from . import AlgorithmSpec
from .bc import on

SPEC = AlgorithmSpec(
    facade=IQL,
    small={"n_envs": 1, "seed": 2, "batch_size": 8, "backend": "torch", "net_arch": (16,)},
    cases={
        "box": on("Pendulum-v1"),
        "native": {**on("Pendulum-v1"), "backend": "native", "anneal_lr": True},
        "box standardised": {**on("Pendulum-v1"), "standardize_obs": True, "anneal_lr": True},
    },
    total=40,
    steady={"anneal_lr": False, "cosine_actor": False},
    tiny={"net_arch": (4,)},
    leaf_cases={"box": 20},
    leaf_more=30,
    choices=False,
)
