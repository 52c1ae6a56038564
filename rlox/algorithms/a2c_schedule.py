"""What A2C's updates share whatever learns: schedules, and what they say."""

from __future__ import annotations

from typing import Any

from rlox.configs import A2CConfig
from rlox.configs.schedules import is_constant
from rlox.types import Clock, Update

__all__ = ["METRIC_NAMES", "RMS_DECAY", "A2CLearnerMixin"]

RMS_DECAY = 0.99
METRIC_NAMES = ("loss/policy", "loss/value", "policy/entropy", "loss/total", "train/grad_norm")


class A2CLearnerMixin:
    """The schedules of the step size and of the entropy's weight."""

    config: A2CConfig
    optimizer: Any

    def _apply_schedules(self, clock: Clock) -> float:
        """Set the step size; the weight of the entropy."""
        remaining = clock.remaining
        self.optimizer.lr = self.config.at("learning_rate", remaining)
        return self.config.at("ent_coef", remaining)

    def _build_update(
        self, losses: dict[str, float], explained_var: float, ent_coef: float, samples: int
    ) -> Update:
        """What a step said, with what is known beside it."""
        metrics = {**losses, "value/explained_variance": explained_var}
        metrics["train/learning_rate"] = self.optimizer.lr
        if not is_constant(self.config.ent_coef):
            metrics["train/ent_coef"] = ent_coef
        return Update(metrics, count=1, samples=samples)
