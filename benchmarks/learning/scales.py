"""Scores of several environments on one scale: 0 is random play, 1 is a published score.

Random play is the mean return of the 50 common episodes; each is played 20 times with uniformly random
actions (`random_play`). The published score is the best score of these algorithms in the table of
rl-baselines3-zoo (benchmark.md). It comes from one run on other episodes, so a score above 1 is no record.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.statistics import normalize


class Scale(NamedTuple):
    """The scores at 0 and 1, and the source of the second one."""

    random: float
    reference: float
    source: str

    def __call__(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores `[seeds]` on this scale."""
        return np.asarray(normalize(scores, self.random, self.reference))


SCALES = {
    "CartPole-v1": Scale(22.6, 500.0, "rl-zoo3: PPO, 100,000 steps; more there is not"),
    "Acrobot-v1": Scale(-499.0, -73.5, "rl-zoo3: PPO, 1,000,000 steps"),
    "Pendulum-v1": Scale(-1285.9, -151.9, "rl-zoo3: TD3, 20,000 steps"),
}


def random_play(env: str, episodes: int, first_seed: int, times: int = 20) -> float:
    """Return the mean return of random actions in the episodes from `first_seed` on, each played `times`
    times.
    """
    environment, returns = gym.make(env), []
    for draw in range(times):
        environment.action_space.seed(draw)
        for i in range(episodes):
            environment.reset(seed=first_seed + i)
            total, is_over = 0.0, False
            while not is_over:
                _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
                total, is_over = total + float(reward), terminated or truncated
            returns.append(total)
    return float(np.mean(returns))
