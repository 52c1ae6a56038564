"""SAC and TD3 swing a pendulum up, with smaller networks than the published recipes.

What they score beside Stable-Baselines3, with whole recipes and ten seeds, is a campaign's question; a
random policy returns -1233, one that has learned the wrong action scale or target -1200 to -1500.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlox.algorithms import SAC, TD3

pytestmark = pytest.mark.learning
SMALL: dict[str, Any] = {"learning_rate": 1e-3, "net_arch": (64, 64)}


def played(algorithm: Any, episodes: int) -> float:
    """Mean return of whole episodes, added up here from Gymnasium's own environment."""
    returns = []
    for i in range(episodes):
        env, total, ended = gym.make("Pendulum-v1"), 0.0, False
        obs, _ = env.reset(seed=200_000 + i)
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(algorithm.predict(obs))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


@pytest.mark.parametrize(
    ("seed", "backend"), [(0, "torch"), (1, "torch"), (0, "native"), (1, "native")]
)
@pytest.mark.parametrize(
    ("facade", "recipe"),
    [(SAC, SMALL), (TD3, {**SMALL, "gamma": 0.98, "learning_starts": 1_000})],
    ids=["SAC", "TD3"],
)
def test_the_pendulum_is_swung_up_after_6_000_steps(
    facade: Any, recipe: Any, seed: int, backend: str
) -> None:
    algorithm = facade("Pendulum-v1", seed=seed, backend=backend, **recipe)
    algorithm.train(6_000)
    score = played(algorithm, 20)
    algorithm.close()
    assert score >= -450, score
