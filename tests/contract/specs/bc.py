"""BC: a dataset, no step of an environment."""

from __future__ import annotations

from pathlib import Path

from rlox.algorithms import BC

from . import AlgorithmSpec

DATA = Path(__file__).parents[2] / "golden" / "datasets"


def on(env_id: str) -> dict[str, str]:
    return {"env_id": env_id, "dataset": str(DATA / env_id)}


SPEC = AlgorithmSpec(
    facade=BC,
    small={"n_envs": 1, "seed": 2, "batch_size": 8, "backend": "torch", "net_arch": (16,), "anneal_lr": True},
    cases={
        "discrete": on("CartPole-v1"),
        "box": on("Pendulum-v1"),
        "box, squared error": {**on("Pendulum-v1"), "loss": "mse"},
        "native": {**on("Pendulum-v1"), "backend": "native"},
        "native, choices": {**on("CartPole-v1"), "backend": "native"},
    },
    total=40,
    factored=True,
    steady={"anneal_lr": False},
    tiny={"net_arch": (4,)},
    leaf_cases={"discrete": 20, "box": 20},
    leaf_more=30,
)
