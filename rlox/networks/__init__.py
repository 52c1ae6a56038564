"""Network building blocks."""

from rlox.networks.bounded import BoundedGaussianPolicy
from rlox.networks.critics import ActionValues, QNetwork, polyak_update, q_values
from rlox.networks.dueling import DuelingMLP
from rlox.networks.encoders import (
    CONVOLUTIONS,
    EncodedEnsemble,
    Encoder,
    Picture,
    behind,
    cost_of,
    orthogonal_encoder,
)
from rlox.networks.ensemble import EnsembleMLP
from rlox.networks.mlp import begun, hooked, inference, mlp, orthogonal_init, trace, widths_of
from rlox.networks.noisy import NoisyLinear, NoisyMLP
from rlox.networks.recurrent import Recurrence
from rlox.networks.squashed import SquashedGaussianPolicy, SquashedSDEPolicy, squashed_log_prob
from rlox.networks.traced import Traced, gradient_of, learned, way_back

__all__ = [
    "CONVOLUTIONS",
    "ActionValues",
    "BoundedGaussianPolicy",
    "DuelingMLP",
    "EncodedEnsemble",
    "Encoder",
    "EnsembleMLP",
    "NoisyLinear",
    "NoisyMLP",
    "Picture",
    "QNetwork",
    "Recurrence",
    "SquashedGaussianPolicy",
    "SquashedSDEPolicy",
    "Traced",
    "begun",
    "behind",
    "cost_of",
    "gradient_of",
    "hooked",
    "inference",
    "learned",
    "mlp",
    "orthogonal_encoder",
    "orthogonal_init",
    "polyak_update",
    "q_values",
    "squashed_log_prob",
    "trace",
    "way_back",
    "widths_of",
]
