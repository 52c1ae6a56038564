"""What DQN's updates share whatever learns: schedules, when the target network follows, what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from rlox.configs import DQNConfig
from rlox.training.replay_update import Stateful
from rlox.types import Clock, Update

__all__ = ["METRIC_NAMES", "DQNLearnerMixin", "scheduled_epsilon"]

METRIC_NAMES = ("loss/q", "value/q_mean", "train/grad_norm")


class TargetUpdater(Stateful, Protocol):
    """A target network."""

    def copy_online(self) -> None:
        """target <- online."""

    def polyak_update(self, tau: float) -> None:
        """target <- (1 - tau) target + tau online."""


class DQNLearnerMixin:
    """The schedule of the step size and of the target network, and what an update says of itself.

    What has a `state` of its own comes behind this among the bases.
    """

    config: DQNConfig
    optimizer: Any
    target_network: TargetUpdater
    n_copies: int = 0  # copies that were due by the environment steps so far

    def state(self) -> dict[str, Any]:
        """With how often the target network has followed."""
        state: dict[str, Any] = super().state()  # type: ignore[misc]
        state["optimizer"]["copied"] = self.n_copies
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)  # type: ignore[misc]
        self.n_copies = int(state["optimizer"]["copied"])

    def _apply_schedules(self, env_steps: int, clock: Clock) -> None:
        """Set the step size, and make the copies to the target network that have become due.

        The online network was the same at all of them, so that n at once leave (1 - tau)^n of the way.
        """
        self.optimizer.lr = self.config.at("learning_rate", clock.remaining)
        due = env_steps // self.config.target_update_interval
        copies = due - self.n_copies
        if copies > 0:
            self.n_copies = due
            tau = self.config.tau
            self.target_network.polyak_update(tau if copies == 1 else 1.0 - (1.0 - tau) ** copies)

    def _add_metrics(self, update: Update, env_steps: int, clock: Clock) -> Update:
        """What an update says, with what is known beside it."""
        metrics = {**update.metrics, "train/learning_rate": self.optimizer.lr}
        if not self.config.noisy:
            elapsed = min(env_steps / (clock.horizon or 1), 1.0)
            metrics["policy/epsilon"] = scheduled_epsilon(self.config, elapsed)
        return replace(update, metrics=metrics)


def scheduled_epsilon(config: DQNConfig, elapsed: float) -> float:
    """As it is scheduled; else it falls linearly over the first `exploration_fraction` of the run."""
    if config.exploration_eps is not None:
        return config.at("exploration_eps", 1.0 - elapsed)
    progress = min(elapsed / config.exploration_fraction, 1.0)
    initial, final = config.exploration_initial_eps, config.exploration_final_eps
    return initial + (final - initial) * progress
