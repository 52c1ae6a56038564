"""The source of on-policy learning where Rust does a whole iteration: it collects and learns in one call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from rlox._core import Iteration
from rlox.collectors.native import NativeCollector
from rlox.policies.native import NativePolicy
from rlox.sources.rollout import RolloutSource
from rlox.types import Clock, Iterated, Progress, Rollout

__all__ = ["FusedSource", "Iterates"]


@runtime_checkable
class Iterates(Protocol):
    """A learner that learns in the call that collects, with the bits of its `update`."""

    native: NativePolicy

    def iterate(self, clock: Clock, iteration: Iteration, index: int, rows: int) -> Iterated:
        """Make the call: rollout number `index`, of so many rows."""


@dataclass
class FusedSource(RolloutSource):
    """Rollouts that are learned from in the call that collects them, where Rust does all that they need.

    Elsewhere (normalised, or other environments than rlox's own) they are handed out as by a `RolloutSource`:
    which of the two changes no bit.
    """

    collector: NativeCollector
    learner: Iterates

    @property
    def mid_update(self) -> bool:
        """Whether the last `next` was broken off while it learned."""
        return self.collector.mid_update

    def next(self, clock: Clock) -> tuple[Rollout | Iterated | None, Progress]:
        """Collect the next rollout, and learn from it where that is one call."""
        learn = partial(self.learner.iterate, clock)
        with self._counting():
            iterated = self.collector.iterate(self.learner.native, self.n_steps, learn)
        return super().next(clock) if iterated is None else (iterated, self.collector.progress)

    def _collected(self) -> Rollout:
        return self.collector.arrays(self.learner.native, self.n_steps)
