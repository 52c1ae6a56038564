"""The on-policy source that collects and learns in one call into Rust."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from rlox._core import Iteration
from rlox.native.collector import NativeCollector
from rlox.native.policy import NativePolicy
from rlox.sources.rollout import RolloutSource
from rlox.types import Clock, FusedUpdate, Progress, Rollout

__all__ = ["FusedLearner", "FusedSource"]


@runtime_checkable
class FusedLearner(Protocol):
    """A learner that can learn in the call that collects; the result is bit-identical to that of `update`."""

    native: NativePolicy

    def fused_update(self, clock: Clock, iteration: Iteration, index: int, rows: int) -> FusedUpdate:
        """Collect rollout number `index`, of `rows` rows, and learn from it."""


@dataclass
class FusedSource(RolloutSource):
    """A source that collects and learns in one Rust call and returns the finished update, not a rollout.

    If the environments are not native or are normalised, it returns rollouts like a `RolloutSource`. The
    results are bit-identical.
    """

    collector: NativeCollector
    learner: FusedLearner

    @property
    def is_mid_update(self) -> bool:
        """Whether the last `next` was interrupted while learning."""
        return self.collector.is_mid_update

    def next(self, clock: Clock) -> tuple[Rollout | FusedUpdate | None, Progress]:
        """Collect the next rollout, and learn from it in the same call if that is possible."""
        learn = partial(self.learner.fused_update, clock)
        with self._count_unlearned():
            fused_update = self.collector.fused_collect(self.learner.native, self.n_steps, learn)
        return super().next(clock) if fused_update is None else (fused_update, self.collector.progress)

    def _collect(self) -> Rollout:
        return self.collector.collect_arrays(self.learner.native, self.n_steps)
