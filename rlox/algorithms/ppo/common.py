"""Schedules, minibatch orders and metrics that the torch and native PPO learners share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.configs import PPOConfig
from rlox.configs.schedules import is_constant
from rlox.rng import Streams
from rlox.types import Clock

__all__ = ["METRIC_NAMES", "PPOLearnerMixin", "ScheduledLoss"]

# Metrics that are means over the minibatches of an update.
METRIC_NAMES = (
    "loss/policy",
    "loss/value",
    "policy/entropy",
    "policy/approx_kl",
    "policy/clip_fraction",
    "loss/total",
    "train/grad_norm",
)


class ScheduledLoss(Protocol):
    """The scheduled coefficients of a loss."""

    clip_eps: float
    ent_coef: float


class PPOLearnerMixin:
    """Applies the schedules of optimizer and loss, and builds the metrics of an update."""

    config: PPOConfig
    streams: Streams
    optimizer: Any
    loss: ScheduledLoss

    def _minibatch_order(self, index: int, epoch: int, count: int) -> NDArray[np.int64]:
        """Return the permutation of `count` rows for an epoch over rollout number `index`, `[count]`."""
        stream = Stream(self.streams.seed, "shuffle", index * self.config.n_epochs + epoch)
        return stream.permutation(count)

    def _apply_schedules(self, clock: Clock) -> None:
        remaining = clock.remaining
        self.optimizer.lr = self.config.at("learning_rate", remaining)
        self.loss.clip_eps = self.config.at("clip_eps", remaining)
        self.loss.ent_coef = self.config.at("ent_coef", remaining)

    def _metrics(self, explained_var: float, means: Mapping[str, float], epochs: int) -> dict[str, float]:
        metrics = {"value/explained_variance": explained_var, **means}
        metrics["train/learning_rate"] = self.optimizer.lr
        metrics["train/clip_eps"] = self.loss.clip_eps
        if not is_constant(self.config.ent_coef):
            metrics["train/ent_coef"] = self.loss.ent_coef
        metrics["train/epochs"] = float(epochs)
        return metrics
