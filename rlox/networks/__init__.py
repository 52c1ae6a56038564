"""Network building blocks."""

from rlox.networks.critics import QNetwork, polyak_update, q_values
from rlox.networks.dueling import DuelingMLP
from rlox.networks.encoders import (
    CONVOLUTIONS,
    EncodedCritics,
    EncodedEnsemble,
    Encoder,
    ImageSpec,
    SelectColumns,
    add_encoder,
    encoder_cost,
    init_orthogonal_encoder,
)
from rlox.networks.gaussians import (
    BoundedGaussianPolicy,
    SquashedGaussianPolicy,
    SquashedSDEPolicy,
    squashed_log_prob,
)
from rlox.networks.initialization import init_weights, orthogonal_init
from rlox.networks.mlp import (
    EnsembleMLP,
    inference_function,
    mlp,
    resolve_widths,
)
from rlox.networks.noisy import NoisyLinear, NoisyMLP
from rlox.networks.recurrent import RecurrentLayers

__all__ = [
    "CONVOLUTIONS",
    "BoundedGaussianPolicy",
    "DuelingMLP",
    "EncodedCritics",
    "EncodedEnsemble",
    "Encoder",
    "EnsembleMLP",
    "ImageSpec",
    "NoisyLinear",
    "NoisyMLP",
    "QNetwork",
    "RecurrentLayers",
    "SelectColumns",
    "SquashedGaussianPolicy",
    "SquashedSDEPolicy",
    "add_encoder",
    "encoder_cost",
    "inference_function",
    "init_orthogonal_encoder",
    "init_weights",
    "mlp",
    "orthogonal_init",
    "polyak_update",
    "q_values",
    "resolve_widths",
    "squashed_log_prob",
]
