"""PPO's objective as one node of the autograd graph.

`PPOLoss` composes the pure losses into some forty nodes; with the small networks that are usual, an
update then takes 1.06 to 1.09 times as long (benchmarks/results/ppo_losses.md). Here are the same
numbers and gradients written out by hand; the tests hold them against the composed ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rlox.losses.ppo import PPOLoss, PPOTerms

__all__ = ["FusedPPOLoss"]


class FusedPPOLoss(PPOLoss):
    """`PPOLoss`, faster: the same parameters, terms and gradients, but no second derivatives."""

    def terms(
        self,
        log_probs: Tensor,
        entropy: Tensor,
        values: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        old_values: Tensor,
    ) -> PPOTerms:
        """The loss from what the policy says of a minibatch; all inputs `[B]`."""
        parts = _ClippedObjective.apply(
            log_probs,
            entropy,
            values,
            old_log_probs,
            advantages,
            returns,
            old_values if self.clip_vloss else None,
            (self.clip_eps, self.vf_coef, self.ent_coef),
        )
        return PPOTerms(*parts)


class _ClippedObjective(torch.autograd.Function):
    """PPO's objective with its gradient in closed form.

    d/d log_prob = -A r / B where the surrogate is not clipped, else 0; d/d entropy = -ent_coef / B;
    d/d V = 2 vf_coef (V - R) / B, or, where the clipped value error is the larger one, the same of
    the clipped value inside the clipping range and 0 outside.
    """

    @staticmethod
    def forward(
        ctx: Any,
        log_probs: Tensor,
        entropy: Tensor,
        values: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        old_values: Tensor | None,
        coefficients: tuple[float, float, float],
    ) -> tuple[Tensor, ...]:
        clip_eps, vf_coef, ent_coef = coefficients
        n = len(log_probs)
        log_ratio = log_probs - old_log_probs
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps)
        surrogate, bound = ratio * advantages, clipped * advantages
        policy = torch.min(surrogate, bound).mean().neg_()
        active = (surrogate <= bound) | (clipped == ratio)
        value, d_values = _value_terms(values, returns, old_values, clip_eps, vf_coef / n)
        mean_entropy = entropy.mean()
        total = policy + vf_coef * value - ent_coef * mean_entropy
        ctx.save_for_backward((surrogate * active).mul_(-1.0 / n), d_values)
        ctx.entropy = -ent_coef / n
        clip_fraction = ((ratio - 1.0).abs_() > clip_eps).float().mean()
        approx_kl = (ratio - 1.0).sub_(log_ratio).mean()
        diagnostics = (policy, value, mean_entropy, approx_kl, clip_fraction)
        ctx.mark_non_differentiable(*diagnostics)
        return total, *diagnostics

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_total: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        d_log_probs, d_values = ctx.saved_tensors
        d_entropy = (d_total * ctx.entropy).expand(len(d_values)) if ctx.entropy else None
        return d_log_probs * d_total, d_entropy, d_values * d_total, None, None, None, None, None


def _value_terms(
    values: Tensor, returns: Tensor, old_values: Tensor | None, clip_eps: float, weight: float
) -> tuple[Tensor, Tensor]:
    """The value loss and `weight * B` times its gradient with respect to `values`."""
    error = values - returns
    if old_values is None:
        return error.square().mean(), error.mul(2.0 * weight)
    change = values - old_values
    bounded = change.clamp(-clip_eps, clip_eps)
    clipped_error = old_values + bounded - returns
    plain = error.square() >= clipped_error.square()
    gradient = torch.where(plain, error, clipped_error * (change == bounded))
    loss = torch.max(error.square(), clipped_error.square()).mean()
    return loss, gradient.mul_(2.0 * weight)
