"""Schedule and metrics that torch and native learners of continuous actors and critics share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlox.configs.base import AlgorithmConfig
from rlox.types import Clock, Update

__all__ = ["ReplayLearnerMixin"]


class ReplayLearnerMixin:
    """Applies the learning rate schedule of actor and critics, and adds the rate to the metrics."""

    config: AlgorithmConfig
    actor_optimizer: Any  # optimizers
    critic_optimizer: Any

    def _apply_schedules(self, clock: Clock) -> None:
        """Set the learning rates."""
        self.actor_optimizer.lr = self.critic_optimizer.lr = self.config.at("learning_rate", clock.remaining)

    def _add_metrics(self, update: Update) -> Update:
        """Add the learning rate to the update's metrics."""
        return replace(update, metrics={**update.metrics, "train/learning_rate": self.actor_optimizer.lr})
