"""Algorithms, one file each: the learner and its façade."""

from rlox.algorithms.a2c import A2C
from rlox.algorithms.ppo import PPO

__all__ = ["A2C", "ALGORITHMS", "PPO"]

ALGORITHMS = {"ppo": PPO, "a2c": A2C}
