"""The source of on-policy learning: rollouts of the learner's own policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    _unlearned_steps = 0  # steps of the last rollout; 0 after learning from it

    @property
    def resume_grade(self) -> str:
        """The resume grade of the environments."""
        return self.collector.env.resume_grade

    def next(self, clock: Clock) -> tuple[Rollout[Any] | FusedUpdate | None, Progress]:
        """Collect the next rollout; `None` if it has no valid row to learn from."""
        with self._count_unlearned():
            rollout = self._collect()
        has_rows = rollout.valid is None or bool(rollout.valid.any())
        return rollout if has_rows else None, self.collector.progress

    def _discard_unlearned(self) -> None:
        """Subtract the steps of an unlearned rollout, which the run's clock does not count either."""
        self.collector.env_steps -= self._unlearned_steps
        self._unlearned_steps = 0

    @contextmanager
    def _count_unlearned(self) -> Iterator[None]:
        """Count the steps of the block that collects a rollout (and, if fused, learns from it)."""
        self._discard_unlearned()
        steps_before = self.collector.env_steps
        try:
            yield
        finally:
            self._unlearned_steps = self.collector.env_steps - steps_before

    def _collect(self) -> Rollout[Any]:
        return self.collector.collect(self.policy, self.n_steps)

    def feedback(self, update: Update) -> None:
        """Mark the rollout as learned from; the collector already acts with the learner's module."""
        self._unlearned_steps = 0

    @property
    def stored_bytes(self) -> int:
        """0: rollouts are not saved."""
        return 0

    def save(self, store: Store) -> dict[str, Any]:
        """Return the collector's state."""
        self._discard_unlearned()
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
