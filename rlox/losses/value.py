"""Losses of values: state values, temporal differences and expectiles; all inputs `[B]`.

Expectile regression: Newey & Powell 1987; Kostrikov et al. 2022 (arXiv:2110.06169), eq. 4.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "clipped_value_loss",
    "critics_gradient",
    "critics_loss",
    "expectile_gradient",
    "expectile_loss",
    "td_gradient",
    "td_loss",
    "td_target",
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


def td_gradient(q: Tensor, target: Tensor, kind: str, weights: Tensor | None = None) -> Tensor:
    """Return d `td_loss` / d q: w clip(e, -1, 1) / B for `huber`, 2 w e / B for `mse`; `[B]`."""
    error = q - target
    slope = error.clamp_(-1.0, 1.0) if kind == "huber" else error.mul_(2.0)
    if weights is not None:
        slope.mul_(weights)
    return slope.div_(len(q))


def critics_loss(q: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return sum_i E[w (Q_i - y)^2] over critics with the same target (Fujimoto et al. 2018, algorithm 1).

    `q` `[members, B]`, `target` `[B]`, `weights` `[B]` (default 1) -> scalar.
    """
    error = (q - target).square()
    return (error if weights is None else weights * error).mean(-1).sum()


def critics_gradient(q: Tensor, target: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return d `critics_loss` / d q: 2 w (Q_i - y) / B; `[members, B]`."""
    slope = (q - target).mul_(2.0 / q.shape[-1])
    return slope if weights is None else slope.mul_(weights)


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
