"""Schedules, target network updates and metrics that the torch and native DQN learners share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rlox.configs import DQNConfig
from rlox.training.loop import Stateful
from rlox.types import Clock

__all__ = ["METRIC_NAMES", "DQNLearnerMixin", "scheduled_epsilon"]

METRIC_NAMES = ("loss/q", "value/q_mean", "train/grad_norm")


class TargetUpdater(Stateful, Protocol):
    """A target network of either engine."""

    def copy_online(self) -> None:
        """target <- online."""

    def polyak_update(self, tau: float) -> None:
        """target <- (1 - tau) target + tau online."""


class DQNLearnerMixin:
    """Applies the schedules of the learning rate and of the target network, and adds the metrics.

    A base class with its own `state` must follow this mixin in the list of bases.
    """

    config: DQNConfig
    optimizer: Any
    target_network: TargetUpdater
    n_target_updates: int = 0  # target updates that were due up to the present environment step

    def state(self) -> dict[str, Any]:
        """Return the learner's state with the number of target updates."""
        state: dict[str, Any] = super().state()  # type: ignore[misc]
        state["optimizer"]["copied"] = self.n_target_updates
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)  # type: ignore[misc]
        self.n_target_updates = int(state["optimizer"]["copied"])

    def _apply_schedules(self, env_steps: int, clock: Clock) -> None:
        """Set the learning rate and apply the target network updates that are due.

        The online network did not change between them, so n updates equal one with tau 1 - (1 - tau)^n.
        """
        self.optimizer.lr = self.config.at("learning_rate", clock.remaining)
        n_due = env_steps // self.config.target_update_interval
        n_new_updates = n_due - self.n_target_updates
        if n_new_updates > 0:
            self.n_target_updates = n_due
            tau = self.config.tau
            self.target_network.polyak_update(
                tau if n_new_updates == 1 else 1.0 - (1.0 - tau) ** n_new_updates
            )

    def _own_metrics(self, env_steps: int, clock: Clock) -> dict[str, float]:
        """Return the metrics besides those of the loss: the learning rate and, unless noisy, epsilon."""
        metrics = {"train/learning_rate": self.optimizer.lr}
        if not self.config.noisy:
            elapsed = min(env_steps / (clock.horizon or 1), 1.0)
            metrics["policy/epsilon"] = scheduled_epsilon(self.config, elapsed)
        return metrics


def scheduled_epsilon(config: DQNConfig, elapsed: float) -> float:
    """Return epsilon: `exploration_eps` if set, else linear decay over `exploration_fraction` of the run."""
    if config.exploration_eps is not None:
        return config.at("exploration_eps", 1.0 - elapsed)
    progress = min(elapsed / config.exploration_fraction, 1.0)
    initial, final = config.exploration_initial_eps, config.exploration_final_eps
    return initial + (final - initial) * progress
