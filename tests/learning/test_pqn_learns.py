"""Tests that PQN learns."""

from __future__ import annotations

from typing import Any

from helpers.seeds import check_learned

from rlox.algorithms import PQN

SETTINGS: dict[str, Any] = {
    "n_envs": 8,
    "n_steps": 32,
    "batch_size": 64,
    "learning_rate": 2.5e-3,
    "exploration_fraction": 0.3,
}


def test_pqn_balances_the_pole_longer_after_60_000_steps() -> None:
    """A random policy scores 22. The final greedy policy plays 20 episodes in environments of its own.

    8 seeds: the lowest 221, 370 and 418, the median 480.
    """

    def score(seed: int) -> float:
        algorithm = PQN("CartPole-v1", seed=seed, **SETTINGS)
        algorithm.train(60_000)
        mean: float = algorithm.evaluate(20).mean
        algorithm.close()
        return mean

    assert check_learned(score, at_least=100.0)
