"""Linear layers with an activation between them, and their gradients written out.

The same products as torch's, each written straight to where the optimizer wants it; the tests hold them
against torch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.networks.traced import Traced, gradient_of

__all__ = ["FUSED", "Layers", "affine"]

# Activations whose gradient is a function of what came out, as they are applied in place.
FUSED: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.Tanh: torch.tanh_,
}


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b of one network, or of n that have each an `x` and parameters with a first dimension n."""
    if weight.dim() == 3:
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
    return functional.linear(x, weight, bias)


# A result of 2 to 15 columns, from so many numbers on, is written the other way round.
NARROW, LARGE = 16, 4096


def times(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a b of matrices, or of so many of each: `[..., n, k]` and `[..., k, m]` give `[..., n, m]`.

    MKL goes along the columns of a result, so that one of few columns leaves most of a vector register
    empty: with 256x256 and 4 columns the transposed product is five times as fast. Of one column it knows
    better, and a product of a column and a row is no sum at all.
    """
    if a.shape[-1] == 1:
        return torch.mul(a, b) if out is None else torch.mul(a, b, out=out)
    product = torch.bmm if a.dim() == 3 else torch.mm
    if 1 < b.shape[-1] < NARROW and a.shape[-2] * a.shape[-1] >= LARGE:
        turned = product(b.mT, a.mT).mT
        return turned if out is None else out.copy_(turned)
    return product(a, b) if out is None else product(a, b, out=out)


class Layers(Traced):
    """Linear layers with `activation`, one of `FUSED`, between them.

    `x` `[B, in]` with weights `[out, in]` and biases `[out]` gives `[B, out]`; with weights
    `[n, out, in]` and biases `[n, out]` of n networks, all of the same `x`, it gives `[n, B, out]`.

    dW = g^T x, db = sum g, dx = g W, with g times the activation's slope on the way down.
    """

    __slots__ = ("_activation", "_biases", "_seen", "_weights", "out", "parameters")

    def __init__(
        self,
        x: Tensor,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        activation: type[nn.Module],
    ) -> None:
        self._weights, self._biases, self._activation = weights, biases, activation
        self.parameters = [*weights, *biases]
        x = x.expand(len(weights[0]), *x.shape) if weights[0].dim() == 3 else x
        self._seen = [x]  # what goes into each layer
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = self._between(affine(x, weight, bias))
            self._seen.append(x)
        self.out = affine(x, weights[-1], biases[-1])

    def learn(self, gradient: Tensor) -> None:
        """The gradients of weights and biases."""
        for i in reversed(range(len(self._seen))):
            weight = self._weights[i]
            times(gradient.mT, self._seen[i], gradient_of(weight))
            torch.sum(gradient, -2, out=gradient_of(self._biases[i]))
            if i:
                gradient = self._before(times(gradient, weight), i)

    def back(self, gradient: Tensor) -> Tensor:
        """The gradient of `x` `[B, in]`, the sum over the networks."""
        for i in reversed(range(len(self._seen))):
            gradient = times(gradient, self._weights[i])
            if i:
                gradient = self._before(gradient, i)
        return gradient.sum(0) if gradient.dim() == 3 else gradient

    def _between(self, x: Tensor) -> Tensor:
        """What the next layer is given of what one says, in its memory."""
        return FUSED[self._activation](x)

    def _before(self, gradient: Tensor, i: int) -> Tensor:
        """The gradient of what the layer before layer i says, in the memory of that behind the activation."""
        if self._activation is nn.ReLU:
            found: Tensor = torch.ops.aten.threshold_backward.grad_input(
                gradient, self._seen[i], 0, grad_input=gradient
            )
        else:
            found = torch.ops.aten.tanh_backward.grad_input(gradient, self._seen[i], grad_input=gradient)
        return found
