"""Network building blocks."""

from rlox.networks.critics import QNetwork, polyak_update, q_values
from rlox.networks.dueling import DuelingMLP
from rlox.networks.ensemble import EnsembleMLP
from rlox.networks.mlp import inference, learning, mlp, orthogonal_init
from rlox.networks.noisy import NoisyLinear, NoisyMLP
from rlox.networks.recurrent import Recurrence
from rlox.networks.squashed import SquashedGaussianPolicy, SquashedSDEPolicy, squashed_log_prob

__all__ = [
    "DuelingMLP",
    "EnsembleMLP",
    "NoisyLinear",
    "NoisyMLP",
    "QNetwork",
    "Recurrence",
    "SquashedGaussianPolicy",
    "SquashedSDEPolicy",
    "inference",
    "learning",
    "mlp",
    "orthogonal_init",
    "polyak_update",
    "q_values",
    "squashed_log_prob",
]
