"""Rainbow with the shipped preset learns, on fewer steps than it is shipped with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml

from rlox.algorithms import Rainbow

PRESET = Path(__file__).parents[2] / "conf" / "tuned" / "rainbow" / "CartPole-v1.yaml"
STEPS = 9_000

pytestmark = pytest.mark.learning


def recipe() -> dict[str, Any]:
    """The preset of CartPole-v1; `2.0e-3` is text to a YAML reader that is not Hydra's."""
    tree = yaml.safe_load(PRESET.read_text())
    tree["algo"]["learning_rate"] = float(tree["algo"]["learning_rate"])
    return {**tree["algo"], "buffer_size": tree["buffer"]["capacity"]}


def played(algorithm: Rainbow, episodes: int) -> float:
    """Mean return of whole episodes, added up here from Gymnasium's own environment."""
    returns = []
    for i in range(episodes):
        env, total, ended = gym.make("CartPole-v1"), 0.0, False
        obs, _ = env.reset(seed=200_000 + i)
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(algorithm.predict(obs))
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


def test_rainbow_balances_the_pole_after_9_000_steps() -> None:
    """A random policy scores 22, and one that learns the wrong thing 9 to 20."""
    algorithm = Rainbow("CartPole-v1", seed=0, **recipe())
    training = algorithm.train(STEPS)["mean_reward"]  # of the last 100 episodes
    final = played(algorithm, 10)
    algorithm.close()
    assert training >= 60, (training, final)
    assert final >= 100, (training, final)
