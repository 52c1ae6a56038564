"""TD3+BC: TD3's update on a dataset, no step of an environment."""

from __future__ import annotations

from rlox.algorithms import TD3BC

from . import AlgorithmSpec
from .bc import on

SPEC = AlgorithmSpec(
    facade=TD3BC,
    small={"n_envs": 1, "seed": 2, "batch_size": 8, "backend": "torch", "net_arch": (16,), "anneal_lr": True},
    cases={
        "box": on("Pendulum-v1"),
        "native": {**on("Pendulum-v1"), "backend": "native"},
        "box as it is": {**on("Pendulum-v1"), "standardize_obs": False, "scale_rewards": "0.1"},
    },
    total=40,
    steady={"anneal_lr": False},
    tiny={"net_arch": (4,)},
    leaf_cases={"box": 20},
    leaf_more=30,
    choices=False,
    without_effect={
        "box: optimizer/actor_loss": "a block of batches has losses of the actor of its own",
    },
)
