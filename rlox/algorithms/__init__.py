"""Algorithms, one file each: the learner and its façade."""

from typing import Any

from rlox.algorithms.a2c import A2C
from rlox.algorithms.bc import BC
from rlox.algorithms.ddpg import DDPG
from rlox.algorithms.dqn import DQN
from rlox.algorithms.hybrid_ppo import HybridPPO
from rlox.algorithms.ppo import PPO
from rlox.algorithms.rainbow import Rainbow
from rlox.algorithms.recurrent_ppo import RecurrentPPO
from rlox.algorithms.sac import SAC
from rlox.algorithms.td3 import TD3
from rlox.configs import ALGO_CONFIGS
from rlox.plugins import Offer, Plugged
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
    "HybridPPO",
    "Rainbow",
    "RecurrentPPO",
]

_ALGORITHMS: dict[str, type[Algorithm]] = {
    facade.name: facade
    for facade in (PPO, RecurrentPPO, A2C, DQN, Rainbow, SAC, TD3, DDPG, HybridPPO, BC)
}


def _facade(offer: Offer, plugin: Any, told: str) -> type[Algorithm]:
    """The class of an algorithm that a plugin brings; `ConfigError` for what is none."""
    _ = ALGO_CONFIGS[offer.name]  # which checks what the plugin is
    found = offer.load(told, plugin.facade)
    if not (isinstance(found, type) and issubclass(found, Algorithm) and found.name == offer.name):
        raise offer.wrong(
            told,
            f'facade=where a class over rlox.runs.algorithm.Algorithm is, with name = "{offer.name}"',
        )
    return found


ALGORITHMS = Plugged(_ALGORITHMS, "algo", _facade)
