"""The one loop: a source gives batches, a learner learns from them, hooks watch the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

from rlox.sources.store import Store
from rlox.types import NO_UPDATE, Clock, FusedUpdate, Progress, Update

__all__ = ["FusedSourceProtocol", "Hook", "Learner", "Source", "Timings", "fit"]

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)
B_contra = TypeVar("B_contra", contravariant=True)

Hook = Callable[[Clock, Progress, Update], None]


class Source(Protocol[B_co]):
    """Where batches come from: a rollout, a replay, a dataset, a generator."""

    @property
    def resume_grade(self) -> str:
        """How a resumed run goes on: `exact`, or at an `episode_start`."""

    def next(self, clock: Clock) -> tuple[B_co | FusedUpdate | None, Progress]:
        """The next batch, or `None` while warming up; returns often enough for hooks and signals.

        `FusedUpdate` is of one that was learned from already, in the call that collected it.
        """

    def feedback(self, update: Update) -> None:
        """What the update has for the source: priorities, refreshed latents, fresh weights."""

    @property
    def stored_bytes(self) -> int:
        """About how much its buffer takes of the disk once it is full; 0 without one."""

    def save(self, store: Store) -> dict[str, Any]:
        """What `restore` needs to go on from here; a buffer goes into the store."""

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from what `save` returned."""

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Why `restore(state, ...)` does not go on as if it had never stopped; empty if it does."""

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """The columns of the last batch, to look into when a number in it is not finite."""

    def close(self) -> None:
        """Release environments and processes."""


@runtime_checkable
class FusedSourceProtocol(Protocol):
    """A source that may learn in the call that collects."""

    @property
    def is_mid_update(self) -> bool:
        """Whether the last `next` was broken off while it learned, not while it collected."""


class Learner(Protocol[B_contra]):
    """What one batch does to the weights."""

    def update(self, batch: B_contra, clock: Clock) -> Update:
        """Learn from one batch; schedules read the clock."""

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones."""

    def state(self) -> dict[str, Any]:
        """`weights` and `optimizer` trees."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""


@dataclass
class Timings:
    """Seconds spent in each part of a run."""

    collect: float = 0.0
    update: float = 0.0
    evaluate: float = 0.0


def fit(
    source: Source[B],
    learner: Learner[B],
    clock: Clock,
    *,
    done: Callable[[Clock], bool],
    hooks: Iterable[Hook] = (),
    timings: Timings | None = None,
    begin_update: Callable[[], None] = lambda: None,
) -> Clock:
    """Run batches through the learner until `done(clock)`; the only training loop in rlox.

    `begin_update` is called before each call of the learner: what breaks off later may be half learned.
    """
    hooks = tuple(hooks)
    timings = timings or Timings()
    while not done(clock):
        started = time.perf_counter()
        batch, progress = source.next(clock)
        collected = time.perf_counter()
        if isinstance(batch, FusedUpdate):
            update, collected = batch.update, collected - batch.seconds
        elif batch is None:
            update = NO_UPDATE
        else:
            begin_update()
            update = learner.update(batch, clock)
        source.feedback(update)
        timings.collect += collected - started
        timings.update += time.perf_counter() - collected
        clock = clock.tick(progress, update)
        for hook in hooks:
            hook(clock, progress, update)
    return clock
