"""Expectile regression (Newey & Powell 1987; Kostrikov et al. 2022, arXiv:2110.06169, eq. 4)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["expectile_gradient", "expectile_loss"]


def expectile_loss(values: Tensor, targets: Tensor, expectile: float) -> Tensor:
    """Return E[|tau - 1(u < 0)| u^2] with u = target - value and tau = `expectile`; inputs are `[B]`."""
    error = targets - values
    return (_weights(error, expectile) * error.square()).mean()


def expectile_gradient(values: Tensor, targets: Tensor, expectile: float) -> Tensor:
    """Return d `expectile_loss` / d values: -2 |tau - 1(u < 0)| u / B; `[B]`."""
    error = targets - values
    return _weights(error, expectile) * error * (-2.0 / len(error))


def _weights(error: Tensor, expectile: float) -> Tensor:
    return torch.where(error < 0, 1.0 - expectile, expectile).to(error.dtype)
