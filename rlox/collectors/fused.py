"""The source of on-policy learning where Rust does a whole iteration: it collects and learns in one call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from rlox._core import Iteration
from rlox.collectors.native import NativeCollector
from rlox.policies.native import NativePolicy
from rlox.sources.rollout import RolloutSource
from rlox.types import Clock, FusedUpdate, Progress, Rollout

__all__ = ["FusedLearner", "FusedSource"]


@runtime_checkable
class FusedLearner(Protocol):
    """A learner that learns in the call that collects, with the bits of its `update`."""

    native: NativePolicy

    def fused_update(self, clock: Clock, iteration: Iteration, index: int, rows: int) -> FusedUpdate:
        """Make the call: rollout number `index`, of so many rows."""


@dataclass
class FusedSource(RolloutSource):
    """Rollouts that are learned from in the call that collects them, where Rust does all that they need.

    Elsewhere (normalised, or other environments than rlox's own) they are handed out as by a `RolloutSource`:
    which of the two changes no bit.
    """

    collector: NativeCollector
    learner: FusedLearner

    @property
    def is_mid_update(self) -> bool:
        """Whether the last `next` was broken off while it learned."""
        return self.collector.is_mid_update

    def next(self, clock: Clock) -> tuple[Rollout | FusedUpdate | None, Progress]:
        """Collect the next rollout, and learn from it where that is one call."""
        learn = partial(self.learner.fused_update, clock)
        with self._count_unlearned():
            fused_update = self.collector.fused_collect(self.learner.native, self.n_steps, learn)
        return super().next(clock) if fused_update is None else (fused_update, self.collector.progress)

    def _collect(self) -> Rollout:
        return self.collector.collect_arrays(self.learner.native, self.n_steps)
