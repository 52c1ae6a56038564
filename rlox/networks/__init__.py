"""Network building blocks."""

from rlox.networks.dueling import DuelingMLP
from rlox.networks.mlp import inference, mlp, orthogonal_init
from rlox.networks.recurrent import Recurrence

__all__ = ["DuelingMLP", "Recurrence", "inference", "mlp", "orthogonal_init"]
