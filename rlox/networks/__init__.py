"""Network building blocks."""

from rlox.networks.dueling import DuelingMLP
from rlox.networks.mlp import inference, mlp, orthogonal_init

__all__ = ["DuelingMLP", "inference", "mlp", "orthogonal_init"]
