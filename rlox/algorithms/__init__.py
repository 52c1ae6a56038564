"""Algorithms, one file each: the learner and its façade."""

from rlox.algorithms.a2c import A2C
from rlox.algorithms.bc import BC
from rlox.algorithms.dqn import DQN
from rlox.algorithms.ppo import PPO
from rlox.algorithms.rainbow import Rainbow
from rlox.runs.algorithm import Algorithm

__all__ = ["A2C", "ALGORITHMS", "BC", "DQN", "PPO", "Rainbow"]

ALGORITHMS: dict[str, type[Algorithm]] = {
    "ppo": PPO,
    "a2c": A2C,
    "dqn": DQN,
    "rainbow": Rainbow,
    "bc": BC,
}
