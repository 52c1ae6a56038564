"""The outputs of a policy and a value function for one row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from parity.transcriptions.common import Kinks, Weights, mlp


def judged(weights: Weights, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log pi(a|s), the entropy of pi(.|s), and V(s)."""
    kinks = Kinks()  # tanh has none
    head = mlp(weights, "actor", obs, "tanh", kinks)
    value = mlp(weights, "critic", obs, "tanh", kinks)[0]
    if "log_std" not in weights:
        log_p = head - torch.log(torch.exp(head).sum())
        return log_p[int(action)], -(torch.exp(log_p) * log_p).sum(), value
    log_std = weights["log_std"]
    variance = torch.exp(log_std) ** 2
    density = -((action - head) ** 2) / (2 * variance) - log_std - 0.5 * math.log(2 * math.pi)
    return density.sum(), (0.5 * math.log(2 * math.pi * math.e) + log_std).sum(), value
