"""Losses of value estimates; all inputs `[B]`."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["clipped_value_loss", "value_loss"]


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """Return E[(V - R)^2], without the factor 1/2 (as in Stable-Baselines3); `[B]` -> scalar."""
    return (values - returns).square().mean()


def clipped_value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip_eps: float) -> Tensor:
    """Return E[max((V - R)^2, (V_old + clip(V - V_old, -e, e) - R)^2)]; `[B]` -> scalar."""
    clipped = old_values + (values - old_values).clamp(-clip_eps, clip_eps)
    return torch.max((values - returns).square(), (clipped - returns).square()).mean()
