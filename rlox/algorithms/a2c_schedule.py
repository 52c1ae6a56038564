"""What A2C's updates share whatever learns: schedules, and what they say."""

from __future__ import annotations

from typing import Any

from rlox.configs import A2CConfig
from rlox.configs.schedules import is_constant
from rlox.types import Clock, Update

__all__ = ["NAMES", "RMS_DECAY", "Scheduled"]

RMS_DECAY = 0.99
NAMES = ("loss/policy", "loss/value", "policy/entropy", "loss/total", "train/grad_norm")


class Scheduled:
    """The schedules of the step size and of the entropy's weight."""

    config: A2CConfig
    optimizer: Any

    def _schedule(self, clock: Clock) -> float:
        """Set the step size; the weight of the entropy."""
        left = clock.remaining
        self.optimizer.lr = self.config.at("learning_rate", left)
        return self.config.at("ent_coef", left)

    def _update(
        self, told: dict[str, float], explained: float, ent_coef: float, samples: int
    ) -> Update:
        """What a step said, with what is known beside it."""
        metrics = {**told, "value/explained_variance": explained}
        metrics["train/learning_rate"] = self.optimizer.lr
        if not is_constant(self.config.ent_coef):
            metrics["train/ent_coef"] = ent_coef
        return Update(metrics, count=1, samples=samples)
