"""The source of on-policy learning: rollouts of the learner's own policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rlox.policies.native import ActingPolicy
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
    _unlearned_steps = 0  # steps of the last rollout, until it is learned from

    @property
    def resume_grade(self) -> str:
        """What the environments can do."""
        return self.collector.env.resume_grade

    def next(self, clock: Clock) -> tuple[Rollout | FusedUpdate | None, Progress]:
        """Collect the next rollout; `None` where no row of it is a transition: nothing to learn from."""
        with self._count_unlearned():
            rollout = self._collect()
        has_rows = rollout.valid is None or bool(rollout.valid.any())
        return rollout if has_rows else None, self.collector.progress

    def _discard_unlearned(self) -> None:
        """The run's clock has no steps of a rollout that was not learned from: nor has the collector."""
        self.collector.env_steps -= self._unlearned_steps
        self._unlearned_steps = 0

    @contextmanager
    def _count_unlearned(self) -> Iterator[None]:
        """The block that collects a rollout, and perhaps learns from it."""
        self._discard_unlearned()
        steps_before = self.collector.env_steps
        try:
            yield
        finally:
            self._unlearned_steps = self.collector.env_steps - steps_before

    def _collect(self) -> Rollout:
        return self.collector.collect(self.policy, self.n_steps)

    def feedback(self, update: Update) -> None:
        """The rollout is learned from; the collector acts with the learner's own module."""
        self._unlearned_steps = 0

    @property
    def stored_bytes(self) -> int:
        """A rollout is not kept."""
        return 0

    def save(self, store: Store) -> dict[str, Any]:
        """The collector's state."""
        self._discard_unlearned()
        return self.collector.state()

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from what `save` returned."""
        self.collector.restore(state)

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Why the environments do not go on in mid-episode; empty if they do."""
        return resume_warning(self.collector.env, state)

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """The last rollout."""
        return self.collector.last_batch()

    def close(self) -> None:
        """Close the environments."""
        self.collector.close()
