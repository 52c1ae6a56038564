"""Linear layers with activations between them, and their hand-derived gradients.

The layers compute the same matrix multiplications as torch, but write each gradient directly into the
optimizer's memory; the tests compare the gradients with those of torch's autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.networks.traced import Traced, gradient_of

__all__ = ["FUSED", "Layers", "affine"]

# Activations, applied in place, whose gradient is a function of their output.
FUSED: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.Tanh: torch.tanh_,
}


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return x W^T + b of one network, or of n networks: inputs and parameters have a first dimension n."""
    if weight.dim() == 3:
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
    return functional.linear(x, weight, bias)


# A product a b with 2 to `NARROW` - 1 columns is computed transposed if a has `LARGE` values or more.
NARROW, LARGE = 16, 4096


def times(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the matrix product a b, also of batches: `[..., n, k]` and `[..., k, m]` give `[..., n, m]`.

    MKL vectorises along the columns of a result, so with few columns most of a vector register is empty:
    with 256x256 and 4 columns the transposed product is five times as fast. MKL handles a single column
    well, and the product of a column and a row needs no sum.
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

    `x` `[B, in]` with weights `[out, in]` and biases `[out]` gives `[B, out]`. With weights
    `[n, out, in]` and biases `[n, out]` of n networks, all with the same `x`, it gives `[n, B, out]`.

    With the gradient g of a layer's output: dW = g^T x, db = sum g, dx = g W. Between layers g is multiplied
    by the activation's derivative.
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
        self._seen = [x]  # inputs of each layer
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            x = self._between(affine(x, weight, bias))
            self._seen.append(x)
        self.out = affine(x, weights[-1], biases[-1])

    def learn(self, gradient: Tensor) -> None:
        """Write the gradients of weights and biases."""
        for i in reversed(range(len(self._seen))):
            weight = self._weights[i]
            times(gradient.mT, self._seen[i], gradient_of(weight))
            torch.sum(gradient, -2, out=gradient_of(self._biases[i]))
            if i:
                gradient = self._before(times(gradient, weight), i)

    def back(self, gradient: Tensor) -> Tensor:
        """Return the gradient with respect to `x` `[B, in]`, summed over the networks."""
        for i in reversed(range(len(self._seen))):
            gradient = times(gradient, self._weights[i])
            if i:
                gradient = self._before(gradient, i)
        return gradient.sum(0) if gradient.dim() == 3 else gradient

    def _between(self, x: Tensor) -> Tensor:
        """Apply the activation between two layers, in place."""
        return FUSED[self._activation](x)

    def _before(self, gradient: Tensor, i: int) -> Tensor:
        """Return the gradient of the input of the activation in front of layer i; overwrites `gradient`."""
        if self._activation is nn.ReLU:
            found: Tensor = torch.ops.aten.threshold_backward.grad_input(
                gradient, self._seen[i], 0, grad_input=gradient
            )
        else:
            found = torch.ops.aten.tanh_backward.grad_input(gradient, self._seen[i], grad_input=gradient)
        return found
