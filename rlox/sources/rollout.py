"""The source of on-policy learning: rollouts of the learner's own policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rlox.parameters.lazy_torch import ActingPolicy
from rlox.sources.collector import Collector
from rlox.sources.env_state import resume_warning
from rlox.sources.store import Store
from rlox.types import Clock, FusedUpdate, Progress, Rollout, Update

__all__ = ["RolloutSource"]


@dataclass
class RolloutSource:
    """Rollouts of the learner's own policy."""

    collector: Collector
    policy: ActingPolicy
    n_steps: int

    @property
    def resume_grade(self) -> str:
        """The resume grade of the environments."""
        return self.collector.env.resume_grade

    def next(self, clock: Clock) -> tuple[Rollout[Any] | FusedUpdate | None, Progress]:
        """Collect the next rollout; `None` if it has no valid row to learn from."""
        self._take_count(clock)
        rollout = self._collect()
        has_rows = rollout.valid is None or bool(rollout.valid.any())
        return rollout if has_rows else None, self.collector.progress

    def _take_count(self, clock: Clock) -> None:
        """Let the collector count from the clock, which does not count the steps of an unlearned rollout."""
        self.collector.env_steps = clock.env_steps

    def _collect(self) -> Rollout[Any]:
        return self.collector.collect(self.policy, self.n_steps)

    def feedback(self, update: Update) -> None:
        """Do nothing: the collector already acts with the learner's module."""

    @property
    def stored_bytes(self) -> int:
        """0: rollouts are not saved."""
        return 0

    def save(self, store: Store) -> dict[str, Any]:
        """Return the collector's state."""
        return self.collector.state()

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from the state that `save` returned."""
        self.collector.restore(state)

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Say why unfinished episodes do not continue; empty if they do."""
        return resume_warning(self.collector.env, state)

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the last rollout."""
        return self.collector.last_batch()

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()
