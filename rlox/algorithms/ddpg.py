"""DDPG: deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971)."""

from __future__ import annotations

from rlox.algorithms.td3 import make
from rlox.runs.algorithm import Algorithm

__all__ = ["DDPG"]


class DDPG(Algorithm):
    """Deep deterministic policy gradient, for Box actions with finite bounds.

    It is TD3 with one critic, an actor update after every critic update, and no noise on the target action.
    """

    name = "ddpg"
    make = staticmethod(make)
