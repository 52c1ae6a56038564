"""Fixed and learned coefficients of loss terms, such as soft actor-critic's temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlox.losses import temperature_loss
from rlox.networks.traced import gradient_of
from rlox.optim import Adam

__all__ = ["FixedCoefficient", "LearnedCoefficient", "LearnedTemperature", "Temperature"]


class FixedCoefficient:
    """A positive constant."""

    def __init__(self, alpha: float, like: Tensor) -> None:
        self._alpha = torch.full((), alpha, dtype=like.dtype, device=like.device)

    @property
    def alpha(self) -> Tensor:
        """The current value, without gradient."""
        return self._alpha

    def state(self) -> dict[str, Any]:
        """Return an empty state: nothing changes."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Do nothing: there is no state."""


class LearnedCoefficient(FixedCoefficient):
    """A coefficient whose logarithm Adam learns."""

    def __init__(self, alpha: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, like)
        log = torch.full((), math.log(alpha), dtype=like.dtype, device=like.device)
        self._module = nn.ParameterDict({"log": nn.Parameter(log)})
        self.optimizer = Adam(self._module, lr, eps=1e-8)

    @property
    def log_alpha(self) -> Tensor:
        """The learned logarithm, without gradient."""
        log: Tensor = self._module["log"].detach()
        return log

    @property
    def alpha(self) -> Tensor:
        """The exponential of the learned logarithm."""
        return self.log_alpha.exp()

    def step(self, slope: Tensor, lr: float) -> None:
        """Take one step down the `slope` with respect to the logarithm."""
        self.optimizer.lr = lr
        gradient_of(self._module["log"]).copy_(slope)
        self.optimizer.clip(None)
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        """Return copies of log alpha and of its optimizer's moments."""
        return {"log": self.log_alpha.clone(), "adam": self.optimizer.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._module.load_state_dict({"log": torch.as_tensor(state["log"])})
        self.optimizer.restore(state["adam"])


class Temperature(FixedCoefficient):
    """A fixed weight of the entropy in the reward."""

    def learn(self, log_prob: Tensor, lr: float) -> Tensor:
        """Learn nothing and return a loss of 0."""
        return torch.zeros_like(self._alpha)


class LearnedTemperature(LearnedCoefficient, Temperature):
    """A temperature that moves the policy's entropy to `target_entropy` (Haarnoja et al. 2018, section 5)."""

    def __init__(self, alpha: float, target_entropy: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, lr, like)
        self.target_entropy = target_entropy

    def learn(self, log_prob: Tensor, lr: float) -> Tensor:
        """Take one step for log-probabilities `[B]` of the policy's actions; return the loss before it."""
        # the loss is linear in log alpha, so its value at 1 is the slope
        slope = temperature_loss(self.log_alpha.new_ones(()), log_prob, self.target_entropy)
        loss: Tensor = self.log_alpha * slope
        self.step(slope, lr)
        return loss
