"""Network building blocks."""

from rlox.networks.dueling import DuelingMLP
from rlox.networks.mlp import inference, mlp, orthogonal_init
from rlox.networks.noisy import NoisyLinear, NoisyMLP

__all__ = ["DuelingMLP", "NoisyLinear", "NoisyMLP", "inference", "mlp", "orthogonal_init"]
