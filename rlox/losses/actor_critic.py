"""Losses of actors and critics, and measures of a policy's change; all inputs `[B]` unless said otherwise.

Soft actor-critic: Haarnoja et al. 2018 (arXiv:1812.05905). Expectile regression: Newey & Powell 1987;
Kostrikov et al. 2022 (arXiv:2110.06169), eq. 4.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from rlox.errors import ShapeError

__all__ = [
    "clip_fraction",
    "clipped_surrogate",
    "clipped_value_loss",
    "critics_loss",
    "expectile_loss",
    "kl_estimate",
    "policy_gradient",
    "soft_policy_loss",
    "standardize",
    "td_loss",
    "td_target",
    "temperature_loss",
    "value_loss",
]


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Return E[(V - R)^2], without the factor 1/2 (as in Stable-Baselines3); `[B]` -> scalar."""
    return (values - returns).square().mean()


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip_eps: float) -> Tensor:
    """Return E[max((V - R)^2, (V_old + clip(V - V_old, -e, e) - R)^2)]; `[B]` -> scalar."""
    clipped = old_values + (values - old_values).clamp(-clip_eps, clip_eps)
    return torch.max((values - returns).square(), (clipped - returns).square()).mean()


def td_target(rewards: Tensor, discounts: Tensor, values: Tensor) -> Tensor:
    """Return the m-step target R + gamma^m (1 - terminated) V(s_{t+m}), `[B]`.

    Sutton & Barto 2018, eq. 7.1. `discounts` are gamma^m, or 0 if the window ended in termination.
    """
    return rewards + discounts * values


def td_loss(q: Tensor, target: Tensor, kind: str, weights: Tensor | None = None) -> Tensor:
    """Return the mean over the batch of w * loss(q - target), `[B]` -> scalar; w = 1 without `weights`.

    `huber`: e^2 / 2 up to |e| = 1, |e| - 1/2 beyond (Mnih et al. 2015); `mse`: e^2.
    """
    rule = functional.huber_loss if kind == "huber" else functional.mse_loss
    if weights is None:
        return rule(q, target)
    return (weights * rule(q, target, reduction="none")).mean()


def critics_loss(q: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return sum_i E[w (Q_i - y)^2] over critics with the same target (Fujimoto et al. 2018, algorithm 1).

    `q` `[members, B]`, `target` `[B]`, `weights` `[B]` (default 1) -> scalar.
    """
    error = (q - target).square()
    return (error if weights is None else weights * error).mean(-1).sum()


def expectile_loss(values: Tensor, targets: Tensor, expectile: float) -> Tensor:
    """Return E[|tau - 1(u < 0)| u^2] with u = target - value and tau = `expectile`; inputs are `[B]`."""
    error = targets - values
    weights = torch.where(error < 0, 1.0 - expectile, expectile).to(error.dtype)
    return (weights * error.square()).mean()


def policy_gradient(log_probs: Tensor, advantages: Tensor) -> Tensor:
    """Return -E[log pi(a|s) A], A2C's policy loss (Mnih et al. 2016, sec. 4); `[B]` -> scalar."""
    _require_same_shapes(log_probs, advantages)
    return -(log_probs * advantages).mean()


def clipped_surrogate(log_ratio: Tensor, advantages: Tensor, clip_eps: float) -> Tensor:
    """Return -E[min(r A, clip(r, 1 - e, 1 + e) A)] with r = exp(log_ratio), PPO eq. 7; `[B]` -> scalar."""
    _require_same_shapes(log_ratio, advantages)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_eps, 1.0 + clip_eps)
    return -torch.min(ratio * advantages, clipped * advantages).mean()


def kl_estimate(log_ratio: Tensor) -> Tensor:
    """Return E[(r - 1) - log r] >= 0, the k3 estimate of KL(old || new) (Schulman 2020); `[B]` -> scalar."""
    return (log_ratio.exp() - 1.0 - log_ratio).mean()


def clip_fraction(log_ratio: Tensor, clip_eps: float) -> Tensor:
    """Return E[|r - 1| > e], the fraction of rows outside the clipping range; `[B]` -> scalar."""
    return ((log_ratio.exp() - 1.0).abs() > clip_eps).float().mean()


def standardize(advantages: Tensor) -> Tensor:
    """Return (A - mean) / (std + 1e-8) over `[B]`; a single advantage is returned unchanged."""
    if advantages.numel() < 2:
        return advantages
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def _require_same_shapes(log_probs: Tensor, advantages: Tensor) -> None:
    """Raise `ShapeError` for different shapes: `[B, 1]` and `[B]` would broadcast to `[B, B]`."""
    if log_probs.shape != advantages.shape:
        raise ShapeError(
            f"log-probabilities {list(log_probs.shape)} and advantages {list(advantages.shape)}: expected "
            "the same shape for both"
        )


def soft_policy_loss(log_prob: Tensor, q: Tensor, temperature: Tensor) -> Tensor:
    """Return E[alpha log pi(a|s) - Q(s, a)], a sampled from pi (Haarnoja et al. 2018, eq. 9)."""
    return (temperature * log_prob - q).mean()


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """Return -log alpha E[log pi(a|s) + H], whose gradient raises alpha if the entropy is below H.

    It is eq. 18 with the factor log alpha instead of alpha, as in its authors' code and Stable-Baselines3.
    """
    return -log_temperature * (log_prob.detach() + target_entropy).mean()
