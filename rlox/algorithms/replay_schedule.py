"""What updates of actors and critics of vectors share whatever learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlox.configs.base import AlgorithmConfig
from rlox.types import Clock, Update

__all__ = ["ReplayLearnerMixin"]


class ReplayLearnerMixin:
    """The schedule of the step size of actor and critics, and what an update says of itself."""

    config: AlgorithmConfig
    actor: Any  # optimizers
    critic: Any

    def _apply_schedules(self, clock: Clock) -> None:
        """Set the step sizes."""
        self.actor.lr = self.critic.lr = self.config.at("learning_rate", clock.remaining)

    def _add_metrics(self, update: Update) -> Update:
        """What an update says, with what is known beside it."""
        return replace(update, metrics={**update.metrics, "train/learning_rate": self.actor.lr})
