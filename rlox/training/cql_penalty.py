"""The weight of CQL's penalty, which may be learned, and what its estimate is drawn with."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from rlox._core import Stream
from rlox.devices import to_device
from rlox.training.coefficients import FixedCoefficient, LearnedCoefficient

__all__ = ["FixedPenaltyWeight", "LearnedPenaltyWeight", "PenaltyNoise", "PenaltyNoiseFunction"]

MAX_WEIGHT = 1e6  # of a learned weight, as in the authors' code

# Of an update, by its number: standard normal numbers `[2, B, n, act_dim]` and uniform ones of [-1, 1]
# `[B, n, act_dim]`, for such a shape `(B, n, act_dim)`, of the kind of a tensor.
PenaltyNoiseFunction = Callable[[int, tuple[int, int, int], Tensor], tuple[Tensor, Tensor]]


class PenaltyNoise:
    """Numbers that are a function of the run's seed and the update's number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, update: int, shape: tuple[int, int, int], like: Tensor) -> tuple[Tensor, Tensor]:
        """Those of an update."""
        stream, count = Stream(self._seed, "penalty", update), math.prod(shape)
        normal = torch.from_numpy(stream.standard_normal(2 * count)).reshape(2, *shape)
        uniform = torch.from_numpy(stream.uniform(count)).reshape(shape).mul_(2.0).sub_(1.0)
        normal, uniform = (to_device(noise.to(like.dtype), like.device) for noise in (normal, uniform))
        return normal, uniform


class FixedPenaltyWeight(FixedCoefficient):
    """One that stays as it is."""

    def learn(self, penalty: Tensor, lr: float) -> None:
        """Nothing is learned."""


class LearnedPenaltyWeight(LearnedCoefficient, FixedPenaltyWeight):
    """One that rises while the penalty p is above `target`: max_alpha alpha (p - tau); at most 1e6.

    CQL's Lagrangian version (Kumar et al. 2020, appendix F).
    """

    def __init__(self, alpha: float, target: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, lr, like)
        self.target = target

    def learn(self, penalty: Tensor, lr: float) -> None:
        """One step for the mean `penalty` of the critics."""
        self.step(self.alpha * (self.target - penalty), lr)
        self.log_alpha.clamp_(max=math.log(MAX_WEIGHT))
