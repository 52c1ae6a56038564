"""Rainbow (Hessel et al. 2018): DQN with all of its extensions.

These are double Q-learning, dueling networks, n-step returns, prioritized replay, noisy networks and C51.
"""

from __future__ import annotations

from rlox.algorithms.dqn import make
from rlox.runs.algorithm import Algorithm

__all__ = ["Rainbow"]


class Rainbow(Algorithm):
    """Rainbow for Discrete actions."""

    name = "rainbow"
    make = staticmethod(make)
