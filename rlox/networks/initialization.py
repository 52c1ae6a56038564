"""Initial weights of networks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import nn

from rlox.networks.mlp import EnsembleMLP
from rlox.networks.noisy import NoisyLinear
from rlox.parameters.layout import initial_weights

__all__ = ["init_weights", "orthogonal_init"]

M = TypeVar("M", bound=nn.Module)


def orthogonal_init(net: nn.Sequential, head_gain: float) -> None:
    """Set orthogonal weights (gain sqrt 2, `head_gain` for the last layer) and zero biases.

    Saxe et al. 2014; the gains are those of the PPO implementation of OpenAI Baselines.
    """
    linear = [m for m in net if isinstance(m, nn.Linear)]
    for layer in linear:
        is_head = layer is linear[-1]
        nn.init.orthogonal_(layer.weight, head_gain if is_head else math.sqrt(2))
        nn.init.zeros_(layer.bias)


@torch.no_grad()
def init_weights(module: M, seed: int, orthogonal: bool = False) -> M:
    """Set the linear layers to the initial weights of a run (`initial_weights`); return the module.

    These are `nn.Linear`, `NoisyLinear` and the layers of `EnsembleMLP`. Other parameters keep their values.
    """
    parameters, layers = dict(module.named_parameters()), set(_parameters_of_linear_layers(module))
    shapes = [(name, tuple(p.shape)) for name, p in parameters.items()]
    for name, values in initial_weights(shapes, seed, orthogonal):
        if name in layers:
            parameters[name].copy_(torch.from_numpy(values))
    return module


def _parameters_of_linear_layers(module: nn.Module) -> Iterator[str]:
    """Yield the names of the parameters that `init_weights` sets."""
    for prefix, layer in module.named_modules():
        if isinstance(layer, nn.Linear | NoisyLinear):
            names = ["weight", "bias"]
        elif isinstance(layer, EnsembleMLP):
            own_names = (name for name, _ in layer.named_parameters())
            names = [name for name in own_names if name.startswith(("weights.", "biases."))]
        else:
            continue
        yield from (f"{prefix}.{name}".removeprefix(".") for name in names)
