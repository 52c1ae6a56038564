"""Schedules and metrics that the torch and native IQL learners share."""

from __future__ import annotations

import math
from typing import Any

from rlox.configs import IQLConfig
from rlox.types import Clock

__all__ = ["METRIC_NAMES", "IQLLearnerMixin"]

METRIC_NAMES = (
    "loss/critic",
    "loss/value",
    "loss/actor",
    "value/q_mean",
    "value/v_mean",
    "policy/weight",
    "train/grad_norm",
)


class IQLLearnerMixin:
    """Applies the learning rate schedules, with cosine decay for the actor, and reports the rates."""

    config: IQLConfig
    actor_optimizer: Any  # optimizers
    critic_optimizer: Any
    value_optimizer: Any

    def _apply_schedules(self, clock: Clock) -> None:
        """Set the learning rates."""
        self.critic_optimizer.lr = self.value_optimizer.lr = self.config.at("learning_rate", clock.remaining)
        progress = 1.0 - clock.remaining
        cosine_factor = 0.5 * (1.0 + math.cos(math.pi * progress)) if self.config.cosine_actor else 1.0
        self.actor_optimizer.lr = self.critic_optimizer.lr * cosine_factor

    def _own_metrics(self) -> dict[str, float]:
        """Return the metrics besides those of the losses: the learning rates."""
        return {
            "train/learning_rate": self.critic_optimizer.lr,
            "train/actor_learning_rate": self.actor_optimizer.lr,
        }
