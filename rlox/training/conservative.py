"""The weight of CQL's penalty, which may be learned, and what its estimate is drawn with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlox._core import Stream
from rlox.devices import moved
from rlox.networks.traced import gradient_of
from rlox.optim import Adam

__all__ = ["Draws", "FixedWeight", "LearnedWeight", "PenaltyDraws"]

MOST = 1e6  # of a learned weight, as in the authors' code

# Of an update, by its number: standard normal numbers `[2, B, n, act_dim]` and uniform ones of [-1, 1]
# `[B, n, act_dim]`, for such a shape `(B, n, act_dim)`, of the kind of a tensor.
Draws = Callable[[int, tuple[int, int, int], Tensor], tuple[Tensor, Tensor]]


class PenaltyDraws:
    """Numbers that are a function of the run's seed and the update's number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(
        self, update: int, shape: tuple[int, int, int], like: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Those of an update."""
        stream, count = Stream(self._seed, "penalty", update), math.prod(shape)
        normal = torch.from_numpy(stream.standard_normal(2 * count)).reshape(2, *shape)
        uniform = torch.from_numpy(stream.uniform(count)).reshape(shape).mul_(2.0).sub_(1.0)
        normal, uniform = (moved(drawn.to(like.dtype), like.device) for drawn in (normal, uniform))
        return normal, uniform


class FixedWeight:
    """One that stays as it is."""

    def __init__(self, alpha: float, like: Tensor) -> None:
        self._alpha = torch.full((), alpha, dtype=like.dtype, device=like.device)

    @property
    def alpha(self) -> Tensor:
        """What it is now; without gradient."""
        return self._alpha

    def learn(self, penalty: Tensor, lr: float) -> None:
        """Nothing is learned."""

    def state(self) -> dict[str, Any]:
        """Nothing that changes."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing to continue from."""


class LearnedWeight(FixedWeight):
    """One that rises while the penalty p is above `target`: max_alpha alpha (p - tau).

    CQL's Lagrangian version (Kumar et al. 2020, appendix F).
    """

    def __init__(self, alpha: float, target: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, like)
        self.target = target
        log = torch.full((), math.log(alpha), dtype=like.dtype, device=like.device)
        self._holder = nn.ParameterDict({"log": nn.Parameter(log)})
        self.optimizer = Adam(self._holder, lr, eps=1e-8)

    @property
    def alpha(self) -> Tensor:
        """exp of what is learned, at most 1e6."""
        alpha: Tensor = self._holder["log"].detach().exp()
        return alpha

    def learn(self, penalty: Tensor, lr: float) -> None:
        """One step for the mean `penalty` of the critics."""
        self.optimizer.lr = lr
        log = self._holder["log"]
        gradient_of(log).copy_(self.alpha * (self.target - penalty))
        self.optimizer.clip(None)
        self.optimizer.step()
        log.data.clamp_(max=math.log(MOST))

    def state(self) -> dict[str, Any]:
        """A copy of log alpha, and of the moments of its optimizer."""
        return {"log": self._holder["log"].detach().clone(), "adam": self.optimizer.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._holder.load_state_dict({"log": torch.as_tensor(state["log"])})
        self.optimizer.restore(state["adam"])
