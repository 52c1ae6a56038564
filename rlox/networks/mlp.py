"""Multilayer perceptrons and their initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["ACTIVATIONS", "inference", "mlp", "orthogonal_init"]

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
}


_IN_PLACE: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Tanh: torch.tanh_,
    nn.ReLU: torch.relu_,
}


def mlp(sizes: Sequence[int], activation: str = "tanh") -> nn.Sequential:
    """Linear layers `sizes[0] -> ... -> sizes[-1]` with `activation` between them, none at the end."""
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        if i:
            layers.append(ACTIVATIONS[activation]())
        layers.append(nn.Linear(inputs, outputs))
    return nn.Sequential(*layers)


def inference(net: nn.Sequential) -> Callable[[Tensor], Tensor]:
    """`net` as a plain function for many small calls without gradients.

    Skips module dispatch, which costs as much as the arithmetic at the batch sizes of collection,
    and applies activations in place; the same kernels on the same weights, so the same bits.
    """
    linear = [(m.weight, m.bias) for m in net if isinstance(m, nn.Linear)]
    if len(net) != 2 * len(linear) - 1 or type(net[0]) is not nn.Linear:
        return net
    activation = _IN_PLACE.get(type(net[1])) if len(net) > 1 else None
    if activation is None:
        return net

    def forward(x: Tensor) -> Tensor:
        for weight, bias in linear[:-1]:
            x = activation(functional.linear(x, weight, bias))
        return functional.linear(x, *linear[-1])

    return forward


def orthogonal_init(net: nn.Sequential, head_gain: float) -> None:
    """Orthogonal weights (gain sqrt 2, `head_gain` for the last layer) and zero biases.

    Saxe et al. 2014; the gains are those of the PPO implementation of OpenAI Baselines.
    """
    linear = [m for m in net if isinstance(m, nn.Linear)]
    for layer in linear:
        last = layer is linear[-1]
        nn.init.orthogonal_(layer.weight, head_gain if last else math.sqrt(2))
        nn.init.zeros_(layer.bias)
