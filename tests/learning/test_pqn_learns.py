"""Tests that PQN learns."""

from __future__ import annotations

from helpers.seeds import check_learned

from rlox.algorithms import PQN

SETTINGS = {
    "n_envs": 8,
    "n_steps": 32,
    "batch_size": 64,
    "learning_rate": 2.5e-3,
    "exploration_fraction": 0.3,
}


def score(seed: int) -> float:
    algorithm = PQN("CartPole-v1", seed=seed, **SETTINGS)  # type: ignore[arg-type]
    algorithm.train(60_000)
    mean = algorithm.evaluate(20).mean  # in environments of its own
    algorithm.close()
    return mean
