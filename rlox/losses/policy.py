"""Policy losses, and measures of the policy's change; all inputs `[B]`."""

from __future__ import annotations

import torch
from torch import Tensor

from rlox.errors import ShapeError

__all__ = ["clip_fraction", "clipped_surrogate", "kl_estimate", "policy_gradient", "standardize"]


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
