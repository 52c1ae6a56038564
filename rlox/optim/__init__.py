"""Optimizers over one flat vector."""

from rlox.optim.flat import FlatParameters
from rlox.optim.rules import Adam, Optimizer, RMSprop
from rlox.optim.target import TargetNetwork

__all__ = ["Adam", "FlatParameters", "Optimizer", "RMSprop", "TargetNetwork"]
