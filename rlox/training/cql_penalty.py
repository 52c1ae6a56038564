"""The fixed or learned weight of CQL's penalty, and the noise of its estimate."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rlox._core import Stream
from rlox.devices import to_device
from rlox.training.coefficients import FixedCoefficient, LearnedCoefficient

__all__ = ["FixedPenaltyWeight", "LearnedPenaltyWeight", "PenaltyNoise", "PenaltyNoiseFunction"]

MAX_WEIGHT = 1e6  # limit of a learned weight, as in the authors' code

# Maps an update's number, a shape `(B, n, act_dim)` and a tensor to standard normal numbers
# `[2, B, n, act_dim]` and uniform ones in [-1, 1] `[B, n, act_dim]`, of the tensor's dtype and device.
PenaltyNoiseFunction = Callable[[int, tuple[int, int, int], Tensor], tuple[Tensor, Tensor]]


class PenaltyNoise:
    """Random numbers that are a function of the run's seed and the update's number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, update: int, shape: tuple[int, int, int], like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the normal and uniform numbers of an update."""
        stream, count = Stream(self._seed, "penalty", update), math.prod(shape)
        normal = torch.from_numpy(stream.standard_normal(2 * count)).reshape(2, *shape)
        uniform = torch.from_numpy(stream.uniform(count)).reshape(shape).mul_(2.0).sub_(1.0)
        normal, uniform = (to_device(noise.to(like.dtype), like.device) for noise in (normal, uniform))
        return normal, uniform


class FixedPenaltyWeight(FixedCoefficient):
    """A fixed weight."""

    def learn(self, penalty: Tensor, lr: float) -> None:
        """Learn nothing."""


class LearnedPenaltyWeight(LearnedCoefficient, FixedPenaltyWeight):
    """A weight alpha that rises while the penalty p is above `target` tau; at most 1e6.

    It maximises alpha (p - tau): CQL's Lagrangian version (Kumar et al. 2020, appendix F).
    """

    def __init__(self, alpha: float, target: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, lr, like)
        self.target = target

    def learn(self, penalty: Tensor, lr: float) -> None:
        """Take one step for the mean `penalty` of the critics."""
        self.step(self.alpha * (self.target - penalty), lr)
        self.log_alpha.clamp_(max=math.log(MAX_WEIGHT))
