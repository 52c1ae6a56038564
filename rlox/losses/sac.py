"""Losses of soft actor-critic; all inputs `[B]` unless said otherwise.

Equations are those of Haarnoja et al. 2018, arXiv:1812.05905.
"""

from __future__ import annotations

from torch import Tensor

__all__ = ["soft_policy_loss", "temperature_loss"]


def soft_policy_loss(log_prob: Tensor, q: Tensor, temperature: Tensor) -> Tensor:
    """Return E[alpha log pi(a|s) - Q(s, a)], a sampled from pi (Haarnoja et al. 2018, eq. 9)."""
    return (temperature * log_prob - q).mean()


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """Return -log alpha E[log pi(a|s) + H], whose gradient raises alpha if the entropy is below H.

    It is eq. 18 with the factor log alpha instead of alpha, as in its authors' code and Stable-Baselines3.
    """
    return -log_temperature * (log_prob.detach() + target_entropy).mean()
