"""Algorithms, one file each: the learner and its façade."""

from rlox.algorithms.ppo import PPO

__all__ = ["ALGORITHMS", "PPO"]

ALGORITHMS = {"ppo": PPO}
