"""Multilayer perceptrons, and the squashed draw behind one, as single nodes of the autograd graph.

With layers of 64 the nodes that torch makes of a network cost more than its arithmetic, and with layers of
256 its temporaries are a tenth. Here are the same products with the gradient written out by hand; the
tests hold them against torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from rlox.networks.density import LOG_SQRT_2PI

__all__ = ["FUSED", "affine", "fused_layers", "squashed_draw"]

LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0  # as in Stable-Baselines3

# Activations whose gradient is a function of what came out, as they are applied in place.
FUSED: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.Tanh: torch.tanh_,
}


def fused_layers(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], activation: type[nn.Module]
) -> Tensor:
    """Linear layers with `activation`, one of `FUSED`, between them; no second derivatives.

    `x` `[B, in]` with weights `[out, in]` and biases `[out]` gives `[B, out]`; with weights
    `[n, out, in]` and biases `[n, out]` of n networks, all of the same `x`, it gives `[n, B, out]`.
    """
    if torch.is_grad_enabled():
        found: Tensor = _Layers.apply(activation, x, *weights, *biases)
        return found
    return _forward(activation, x, weights, biases)[-1]


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b of one network, or of n that have each an `x` and parameters with a first dimension n."""
    if weight.dim() == 3:
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
    return functional.linear(x, weight, bias)


def squashed_draw(output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """tanh(mean + std noise) `[B, n]` and its log-density `[B]`, of a network's `output` `[B, 2 n]`.

    `output` is the means and the log standard deviations, which are cut off at [-20, 2].
    """
    if torch.is_grad_enabled():
        action, log_prob = _Draw.apply(output, noise)
        return action, log_prob
    return _drawn(output, noise)[:2]


def _forward(
    activation: type[nn.Module], x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> list[Tensor]:
    """What goes into each layer, and what comes out of the last."""
    seen = [x.expand(len(weights[0]), *x.shape) if weights[0].dim() == 3 else x]
    last, active = len(weights) - 1, FUSED[activation]
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        out = affine(seen[-1], weight, bias)
        seen.append(active(out) if i < last else out)
    return seen


class _Layers(torch.autograd.Function):
    """dW = g^T x, db = sum g, dx = g W, with g times the activation's slope on the way down."""

    @staticmethod
    def forward(ctx: Any, activation: type[nn.Module], x: Tensor, *parameters: Tensor) -> Tensor:
        half = len(parameters) // 2
        *seen, out = _forward(activation, x, parameters[:half], parameters[half:])
        ctx.save_for_backward(*seen, *parameters[:half])
        ctx.relu = activation is nn.ReLU
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved, needed = ctx.saved_tensors, ctx.needs_input_grad
        layers = len(saved) // 2
        seen, weights = saved[:layers], saved[layers:]
        product = torch.bmm if gradient.dim() == 3 else torch.mm
        to_weights: list[Tensor | None] = [None] * layers
        to_biases: list[Tensor | None] = [None] * layers
        for i in reversed(range(layers)):
            if needed[2 + i]:
                to_weights[i] = product(gradient.mT, seen[i])
                to_biases[i] = gradient.sum(-2)
            if not i and not needed[1]:
                return None, None, *to_weights, *to_biases
            gradient = product(gradient, weights[i])
            if i and ctx.relu:
                torch.ops.aten.threshold_backward.grad_input(
                    gradient, seen[i], 0, grad_input=gradient
                )
            elif i:
                gradient.mul_(1.0 - seen[i].square())
        return None, gradient.sum(0) if gradient.dim() == 3 else gradient, *to_weights, *to_biases


def _drawn(output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The action, its log-density, and how far u was from its mean, `[B, n]`.

    Of u = mean + std noise: log N(u; mean, std) - log(1 - tanh^2 u), where the latter is
    2 (log 2 - u - softplus(-2 u)).
    """
    mean, log_std = output.chunk(2, -1)
    log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
    far = log_std.exp().mul_(noise)
    u = mean + far
    rest = functional.softplus(-2.0 * u).add_(u).mul_(2.0)
    rest.sub_(log_std).sub_(noise.square().mul_(0.5))
    constant = (2.0 * math.log(2.0) + LOG_SQRT_2PI) * noise.shape[-1]
    return u.tanh_(), rest.sum(-1).sub_(constant), far


class _Draw(torch.autograd.Function):
    """du = da (1 - a^2) + 2 a dlog_prob; the mean gets du, log std gets du std noise - dlog_prob."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        action, log_prob, far = _drawn(output, noise)
        log_std = output[..., action.shape[-1] :]
        inside = (log_std >= LOG_STD_MIN) & (log_std <= LOG_STD_MAX)
        ctx.save_for_backward(action, far, inside)
        return action, log_prob

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_action: Tensor, to_log_prob: Tensor) -> tuple[Tensor, None]:
        action, far, inside = ctx.saved_tensors
        to_log_prob = to_log_prob.unsqueeze(-1)
        to_u = to_action * (1.0 - action.square()) + 2.0 * action * to_log_prob
        to_log_std = (to_u * far).sub_(to_log_prob).mul_(inside)
        return torch.cat([to_u, to_log_std], -1), None
