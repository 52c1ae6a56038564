"""Metrics that the torch and native learners of TD3 and DDPG share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlox.algorithms.assembly.off_policy import ReplayLearnerMixin
from rlox.configs import TD3BCConfig
from rlox.configs.td3 import DeterministicConfig

__all__ = ["METRIC_NAMES", "TD3LearnerMixin", "TD3LikeConfig"]

METRIC_NAMES = ("loss/critic", "value/q_mean", "train/grad_norm")


# TD3 and DDPG learn online, TD3+BC from a dataset.
TD3LikeConfig = DeterministicConfig | TD3BCConfig


class TD3LearnerMixin(ReplayLearnerMixin):
    """Keeps the last actor loss, so that updates without an actor step report it too.

    A base class with its own `state` must follow this mixin in the list of bases.
    """

    config: TD3LikeConfig
    actor_loss: float | None = None  # mean over the last update with actor steps

    def _own_metrics(self) -> dict[str, float]:
        metrics = super()._own_metrics()
        if self.actor_loss is not None:
            metrics["loss/actor"] = self.actor_loss
        return metrics

    def state(self) -> dict[str, Any]:
        """Return the learner's state with the last actor loss."""
        state: dict[str, Any] = super().state()  # type: ignore[misc]
        if self.actor_loss is not None:
            state["optimizer"]["actor_loss"] = self.actor_loss
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)  # type: ignore[misc]
        self.actor_loss = state["optimizer"].get("actor_loss")
