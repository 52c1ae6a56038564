"""CQL: it lowers the values of actions that the dataset lacks; no step of an environment."""

from __future__ import annotations

from rlox.algorithms import CQL

from . import AlgorithmSpec
from .bc import on

SPEC = AlgorithmSpec(
    facade=CQL,
    small={"n_envs": 1, "seed": 2, "batch_size": 8, "net_arch": (16,), "anneal_lr": True},
    cases={
        "box": {**on("Pendulum-v1"), "n_random_actions": 2},
        "discrete": on("CartPole-v1"),
        "box, all learned": {
            **on("Pendulum-v1"),
            "auto_alpha": True,
            "cql_target_value": 1.0,
            "n_random_actions": 3,
        },
        "discrete, learned": {**on("CartPole-v1"), "auto_alpha": True, "cql_target_value": 0.5},
    },
    total=40,
    steady={"anneal_lr": False},
    tiny={"net_arch": (4,)},
    leaf_cases={"box, all learned": 20, "discrete, learned": 20},
    leaf_more=30,
)
