"""Algorithms, one file each: the learner and its façade."""

from rlox.algorithms.a2c import A2C
from rlox.algorithms.bc import BC
from rlox.algorithms.ddpg import DDPG
from rlox.algorithms.dqn import DQN
from rlox.algorithms.ppo import PPO
from rlox.algorithms.rainbow import Rainbow
from rlox.algorithms.recurrent_ppo import RecurrentPPO
from rlox.algorithms.sac import SAC
from rlox.algorithms.td3 import TD3
from rlox.runs.algorithm import Algorithm

__all__ = [
    "A2C",
    "ALGORITHMS",
    "BC",
    "DDPG",
    "DQN",
    "PPO",
    "SAC",
    "TD3",
    "Rainbow",
    "RecurrentPPO",
]

ALGORITHMS: dict[str, type[Algorithm]] = {
    facade.name: facade for facade in (PPO, RecurrentPPO, A2C, DQN, Rainbow, SAC, TD3, DDPG, BC)
}
