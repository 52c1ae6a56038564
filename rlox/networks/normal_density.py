"""The log density of the normal distribution, element by element."""

from __future__ import annotations

import math

from torch import Tensor

__all__ = ["LOG_SQRT_2PI", "log_normal"]

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def log_normal(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log density of Normal(mean, exp(log_std)) at x, elementwise."""
    z = (x - mean) * (-log_std).exp()
    return -0.5 * z.square() - log_std - LOG_SQRT_2PI
