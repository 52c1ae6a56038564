"""What TD3's and DDPG's updates share whatever learns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rlox.algorithms import replay_schedule
from rlox.configs import TD3BCConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.types import Update

__all__ = ["METRIC_NAMES", "TD3LearnerMixin", "TD3LikeConfig"]

METRIC_NAMES = ("loss/critic", "value/q_mean", "train/grad_norm")


# Online or on a dataset.
TD3LikeConfig = DeterministicConfig | TD3BCConfig


class TD3LearnerMixin(replay_schedule.ReplayLearnerMixin):
    """With the last loss of the actor, which is told where it does not learn.

    What has a `state` of its own comes behind this among the bases.
    """

    config: TD3LikeConfig
    actor_loss: float | None = None  # the mean in the last update that had some

    def _add_metrics(self, update: Update) -> Update:
        result = super()._add_metrics(update)
        if self.actor_loss is None:
            return result
        return replace(result, metrics={**result.metrics, "loss/actor": self.actor_loss})

    def state(self) -> dict[str, Any]:
        """With the last loss of the actor."""
        state: dict[str, Any] = super().state()  # type: ignore[misc]
        if self.actor_loss is not None:
            state["optimizer"]["actor_loss"] = self.actor_loss
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)  # type: ignore[misc]
        self.actor_loss = state["optimizer"].get("actor_loss")
