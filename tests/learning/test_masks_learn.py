"""Tests that masks make an otherwise unlearnable task learnable (Huang and Ontanon 2020, section 4)."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.seeds import check_learned
from lock import Lock

from rlox.algorithms import DQN, PPO

SETTINGS: dict[Any, dict[str, Any]] = {
    PPO: {
        "n_envs": 8, "n_steps": 64, "batch_size": 128, "learning_rate": 2e-3, "ent_coef": 0.02,
        "net_arch": (32,), "backend": "native",
    },
    DQN: {
        "learning_rate": 2e-3, "batch_size": 64, "learning_starts": 500, "train_freq": 8, "gradient_steps": 4,
        "target_update_interval": 200, "exploration_fraction": 0.5, "gamma": 0.95, "net_arch": (64,),
        "buffer_size": 10_000, "backend": "torch",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("facade", "total"), [(PPO, 8_192), pytest.param(DQN, 4_000, marks=pytest.mark.slow)]
)
def test_the_policy_opens_the_lock_only_with_masks(facade: Any, total: int) -> None:
    """Each of five dials allows two of 24 numbers: random tries open it 1 in 32 times, or 1 in 8 million.

    The first rate is with masks, the second without.

    All of 20 seeds of PPO with masks opened it each time.
    """

    def opened(source: str, seed: int) -> float:
        algorithm = facade(Lock, seed=seed, action_mask=source, **SETTINGS[facade])
        algorithm.train(total)
        played: float = algorithm.evaluate(10).mean
        return played

    assert check_learned(lambda seed: opened("info", seed), at_least=0.9)
    assert opened("none", 1) == 0.0
