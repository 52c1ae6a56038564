"""Several networks of one shape in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from rlox.networks.fused import FUSED, affine, fused_layers
from rlox.networks.mlp import ACTIVATIONS

__all__ = ["EnsembleMLP"]


class EnsembleMLP(nn.Module):
    """`members` MLPs `sizes[0] -> ... -> sizes[-1]`, each as `mlp` makes them, with no parameter in common.

    Weights of layer i are `weights[i]` `[members, out, in]` and `biases[i]` `[members, out]`, so that a
    layer of all members is one batched product: with small networks a call costs more than its
    arithmetic.
    """

    def __init__(self, members: int, sizes: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        layers = [
            [nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes)]
            for _ in range(members)
        ]
        self.weights, self.biases = (
            nn.ParameterList(
                nn.Parameter(torch.stack([getattr(layer, name).detach() for layer in of_all]))
                for of_all in zip(*layers, strict=True)
            )
            for name in ("weight", "bias")
        )
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor, frozen: bool = False, members: int | None = None) -> Tensor:
        """`[B, in]`, the same for all members -> `[members, B, out]`.

        `frozen`: no gradient is asked for but that of `x`. `members`: only so many of them, the first.
        """
        weights, biases = list(self.weights), list(self.biases)
        if frozen:
            weights, biases = [w.detach() for w in weights], [b.detach() for b in biases]
        if members is not None:
            weights, biases = [w[:members] for w in weights], [b[:members] for b in biases]
        if type(self.activation) in FUSED:
            return fused_layers(x, weights, biases, type(self.activation))
        x = x.expand(len(weights[0]), *x.shape)
        for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            if i:
                x = self.activation(x)
            x = affine(x, weight, bias)
        return x
