"""Masks make a task learnable that is out of reach without them (Huang and Ontanon 2020, section 4)."""

from __future__ import annotations

from typing import Any

import pytest
from lock import Lock

from rlox.algorithms import DQN, PPO

pytestmark = pytest.mark.learning

SETTINGS: dict[Any, dict[str, Any]] = {
    PPO: {
        "n_envs": 8, "n_steps": 64, "batch_size": 128, "learning_rate": 2e-3, "ent_coef": 0.02,
        "net_arch": (32,),
    },
    DQN: {
        "learning_rate": 2e-3, "batch_size": 64, "learning_starts": 500, "train_freq": 8, "gradient_steps": 4,
        "target_update_interval": 200, "exploration_fraction": 0.5, "gamma": 0.95, "net_arch": (64,),
        "buffer_size": 10_000,
    },
}  # fmt: skip


@pytest.mark.parametrize(("facade", "total"), [(PPO, 8_192), (DQN, 4_000)])
def test_a_lock_opens_with_masks_and_not_without(facade: Any, total: int) -> None:
    """At each of five dials two of 24 numbers turn: at random, 1 in 32 tries opens it, or 1 in 8 million."""

    def opened(source: str) -> float:
        algorithm = facade(Lock, seed=1, action_mask=source, **SETTINGS[facade])
        algorithm.train(total)
        played: float = algorithm.evaluate(10).mean
        return played

    assert opened("info") == 1.0
    assert opened("none") == 0.0
