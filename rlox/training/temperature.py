"""The temperature of soft actor-critic: how much an entropy of 1 is worth in reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlox.losses import temperature_loss
from rlox.networks.traced import gradient_of
from rlox.optim import Adam

__all__ = ["LearnedTemperature", "Temperature"]


class Temperature:
    """One that stays as it is."""

    def __init__(self, alpha: float, like: Tensor) -> None:
        self._alpha = torch.full((), alpha, dtype=like.dtype, device=like.device)

    @property
    def alpha(self) -> Tensor:
        """What it is now; without gradient."""
        return self._alpha

    def learn(self, log_prob: Tensor, lr: float) -> Tensor:
        """Nothing is learned; the loss, 0."""
        return torch.zeros_like(self._alpha)

    def state(self) -> dict[str, Any]:
        """Nothing that changes."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing to continue from."""


class LearnedTemperature(Temperature):
    """One that follows the policy's entropy to `target_entropy` (Haarnoja et al. 2018, section 5)."""

    def __init__(self, alpha: float, target_entropy: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, like)
        self.target_entropy = target_entropy
        log = torch.full((), math.log(alpha), dtype=like.dtype, device=like.device)
        self._holder = nn.ParameterDict({"log": nn.Parameter(log)})
        self.optimizer = Adam(self._holder, lr, eps=1e-8)

    @property
    def alpha(self) -> Tensor:
        """exp of what is learned."""
        alpha: Tensor = self._holder["log"].detach().exp()
        return alpha

    def learn(self, log_prob: Tensor, lr: float) -> Tensor:
        """One step for log-probabilities `[B]` of the policy's actions; the loss before it."""
        self.optimizer.lr = lr
        log = self._holder["log"]
        # the loss is linear in log alpha: of 1 it is the slope
        slope = temperature_loss(log.new_ones(()), log_prob, self.target_entropy)
        loss: Tensor = log.detach() * slope
        gradient_of(log).copy_(slope)
        self.optimizer.clip(None)
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, Any]:
        """A copy of log alpha, and of the moments of its optimizer."""
        return {"log": self._holder["log"].detach().clone(), "adam": self.optimizer.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._holder.load_state_dict({"log": torch.as_tensor(state["log"])})
        self.optimizer.restore(state["adam"])
