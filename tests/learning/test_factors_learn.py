"""Tests that a policy learns every factor of an action.

The score stays below the bound if one factor is left to chance.
"""

from __future__ import annotations

from typing import Any

import pytest
from helpers.factored_actions import env_id
from helpers.seeds import check_learned

from rlox.algorithms import A2C, PPO

SHARED: dict[str, Any] = {
    "n_envs": 8, "learning_rate": 1e-2, "net_arch": (16,), "gamma": 0.0,
}  # fmt: skip
SETTINGS: dict[Any, tuple[int, dict[str, Any]]] = {
    PPO: (6_144, {"n_steps": 64, "batch_size": 128, "n_epochs": 8}),
    A2C: (12_800, {"n_steps": 8}),
}


@pytest.mark.slow
@pytest.mark.parametrize("facade", SETTINGS)
@pytest.mark.parametrize(
    ("name", "without_one"),
    [
        # The mean share of right parts over eight steps, if one part is right only by chance.
        ("MultiDiscrete", 8 * (1 + 1 / 2) / 2),
        ("MultiBinary", 8 * (2 + 1 / 2) / 3),
        ("DictMixed", 8 * (1 + 1 / 2) / 2),
    ],
)
def test_the_policy_learns_each_part_of_an_action(facade: Any, name: str, without_one: float) -> None:
    total, settings = SETTINGS[facade]
    numbers = {"log_std_init": -1.0} if name == "DictMixed" else {}

    def score(seed: int) -> float:
        algorithm = facade(env_id(name), seed=seed, **SHARED, **settings, **numbers)
        algorithm.train(total)
        mean: float = algorithm.evaluate(20).mean
        return mean

    assert without_one < 7.5
    assert check_learned(score, at_least=7.5)
