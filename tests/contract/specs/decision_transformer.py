"""Decision Transformer: parts of a dataset's episodes, no step of an environment."""

from __future__ import annotations

from rlox.algorithms import DecisionTransformer

from . import AlgorithmSpec
from .bc import on

SMALL = {"context_length": 4, "hidden": 8, "n_layers": 1, "n_heads": 2, "max_timesteps": 200}

SPEC = AlgorithmSpec(
    facade=DecisionTransformer,
    small={"n_envs": 1, "seed": 2, "batch_size": 4, "warmup_updates": 20, **SMALL},
    cases={
        "box": {**on("Pendulum-v1"), "anneal_lr": True},
        "discrete": {**on("CartPole-v1"), "target_return": 50.0, "learning_rate": 1e-3},
    },
    total=40,
    steady={"anneal_lr": False},
    tiny={"hidden": 4, "max_timesteps": 200},
    leaf_cases={"discrete": 20},
    leaf_more=30,
)
