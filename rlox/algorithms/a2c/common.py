"""Schedules and metrics that the torch and native A2C learners share."""

from __future__ import annotations

from typing import Any

from rlox.configs import A2CConfig
from rlox.configs.schedules import is_constant
from rlox.types import Clock, Update

__all__ = ["METRIC_NAMES", "RMS_DECAY", "A2CLearnerMixin"]

RMS_DECAY = 0.99
METRIC_NAMES = ("loss/policy", "loss/value", "policy/entropy", "loss/total", "train/grad_norm")


class A2CLearnerMixin:
    """Applies the schedules of the learning rate and the entropy coefficient, and builds updates."""

    config: A2CConfig
    optimizer: Any

    def _apply_schedules(self, clock: Clock) -> float:
        """Set the learning rate and return the entropy coefficient."""
        remaining = clock.remaining
        self.optimizer.lr = self.config.at("learning_rate", remaining)
        return self.config.at("ent_coef", remaining)

    def _build_update(
        self, losses: dict[str, float], explained_var: float, ent_coef: float, samples: int
    ) -> Update:
        """Build the update from the losses, explained variance, learning rate and entropy coefficient."""
        metrics = {**losses, "value/explained_variance": explained_var}
        metrics["train/learning_rate"] = self.optimizer.lr
        if not is_constant(self.config.ent_coef):
            metrics["train/ent_coef"] = ent_coef
        return Update(metrics, count=1, samples=samples)
