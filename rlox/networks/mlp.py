"""Multilayer perceptrons and their initialisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

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


_IN_PLACE: dict[type, Callable[[Tensor], Tensor]] = {
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


def inference(net: nn.Module) -> Callable[[Tensor], Tensor]:
    """`net` as a plain function for many small calls without gradients.

    Skips module dispatch, which costs as much as the arithmetic at the batch sizes of collection,
    and applies activations in place; the same kernels on the same weights, so the same bits. A net
    of other layers than `mlp` makes, or with hooks, comes back as it is.
    """
    if type(net) is not nn.Sequential:
        return net
    layers = list(net._modules.values())
    kinds = nn.Linear, type(layers[1] if len(layers) > 1 else None)
    activation = _IN_PLACE.get(kinds[1])
    if activation is None or len(layers) % 2 == 0 or net._forward_hooks or net._forward_pre_hooks:
        return net
    for i, layer in enumerate(layers):
        if type(layer) is not kinds[i % 2] or layer._forward_hooks or layer._forward_pre_hooks:
            return net
    # not `layer.weight`: an attribute of a module is looked up in four places
    parameters: list[dict[str, Any]] = [layer._parameters for layer in layers[::2]]
    linear = [(p["weight"], p["bias"]) for p in parameters]

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
