"""Ensembles of networks of the same shape, computed in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rlox.networks.mlp import ACTIVATIONS, FUSED, Layers, affine, is_hooked, require_activation
from rlox.networks.traced import Graph, Traced

__all__ = ["EnsembleMLP"]


class EnsembleMLP(nn.Module):
    """`members` MLPs `sizes[0] -> ... -> sizes[-1]`, each as made by `mlp`, without shared parameters.

    Weights of layer i are `weights[i]` `[members, out, in]` and `biases[i]` `[members, out]`, so that a
    layer of all members is one batched matrix multiplication. With small networks a call to torch costs more
    than its arithmetic.
    """

    def __init__(self, members: int, sizes: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        require_activation(activation)
        layers = [[nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes)] for _ in range(members)]
        self.weights, self.biases = (
            nn.ParameterList(
                nn.Parameter(torch.stack([getattr(layer, name).detach() for layer in member_layers]))
                for member_layers in zip(*layers, strict=True)
            )
            for name in ("weight", "bias")
        )
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Compute `[members, B, out]` from one `[B, in]` for all networks, or for the first `members`."""
        x = x.expand(len(self.weights[0]) if members is None else members, *x.shape)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = affine(self.activation(x) if i else x, weight[:members], bias[:members])
        return x

    def trace(self, x: Tensor, members: int | None = None) -> Traced:
        """Return `forward` with its backward passes; if `members` is given, only `back` may be called.

        Gradients are hand-derived if the activation is in `FUSED` and there are no hooks, else autograd's.
        """
        is_plain = type(self) is EnsembleMLP and type(self.activation) in FUSED
        if not is_plain or any(is_hooked(m) for m in (self, *self._modules.values()) if m is not None):
            return Graph(lambda inputs: self(inputs, members), x, self.parameters())
        return Layers(x, *self._member_parameters(members), type(self.activation))

    def _member_parameters(self, members: int | None) -> tuple[list[Tensor], list[Tensor]]:
        """Return weights and biases of the first `members` MLPs; the parameters themselves if it is None."""
        # `_parameters`, because a ParameterList looks up each parameter by name
        parts: list[dict[str, Any]] = [self.weights._parameters, self.biases._parameters]
        weights, biases = ([p if members is None else p[:members] for p in part.values()] for part in parts)
        return weights, biases
