"""Q functions with layer normalisation, whose values stay bounded for actions outside the dataset."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from rlox.networks import EnsembleMLP
from rlox.networks.mlp import Layers, affine

__all__ = ["LayerNormEnsemble"]

EPS = 1e-5  # torch's default


class LayerNormEnsemble(EnsembleMLP):
    """An ensemble of ReLU networks with layer normalisation before each hidden activation.

    The weights of the last layer then bound the outputs, however far an input is from the training data
    (Ball et al. 2023, arXiv:2302.02948, section 4.2). So targets with policy actions that are not in the
    dataset do not diverge.
    """

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Map `[B, in]` to `[members, B, out]`; the first `members` networks run (`None`: all of them)."""
        x = x.expand(len(self.weights[0]) if members is None else members, *x.shape)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i:
                x = self.activation(layer_norm(x, x.shape[-1:], eps=EPS))
            x = affine(x, weight[:members], bias[:members])
        return x

    def trace(self, x: Tensor, members: int | None = None) -> Layers:
        """Run `forward` and keep what the hand-derived gradients need."""
        return LayerNormLayers(x, *self._member_parameters(members), nn.ReLU)


class LayerNormLayers(Layers):
    """Layers with normalisation between linear output and activation.

    With z' = (z - mean z) / std z: dz = (g - mean g - z' mean(g z')) / std z.
    """

    __slots__ = ("_normal",)

    def __init__(self, *args: Any) -> None:
        self._normal: list[tuple[Tensor, Tensor, Tensor]] = []  # per layer: z, mean, 1 / std
        super().__init__(*args)

    def _between(self, x: Tensor) -> Tensor:
        normal, mean, inverse = torch.native_layer_norm(x, x.shape[-1:], None, None, EPS)
        self._normal.append((x, mean, inverse))
        return super()._between(normal)

    def _before(self, gradient: Tensor, i: int) -> Tensor:
        z, mean, inverse = self._normal[i - 1]
        gradient_in: Tensor = torch.ops.aten.native_layer_norm_backward(
            super()._before(gradient, i),
            z,
            z.shape[-1:],
            mean,
            inverse,
            None,
            None,
            [True, False, False],
        )[0]
        return gradient_in
