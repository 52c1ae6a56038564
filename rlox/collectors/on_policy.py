"""The source of on-policy learning: rollouts of the learner's own policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlox.collectors.rollout import RolloutCollector
from rlox.policies import ActorCritic
from rlox.types import Clock, Progress, Rollout, Update

__all__ = ["OnPolicySource"]


@dataclass
class OnPolicySource:
    """Rollouts of the learner's own policy."""

    collector: RolloutCollector
    policy: ActorCritic
    n_steps: int

    def next(self, clock: Clock) -> tuple[Rollout, Progress]:
        """Collect the next rollout."""
        return self.collector.collect(self.policy, self.n_steps), self.collector.progress

    def feedback(self, update: Update) -> None:
        """Nothing to feed back: the collector acts with the learner's own module."""

    def state(self) -> dict[str, Any]:
        """The collector's state."""
        return self.collector.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.collector.restore(state)

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()
