"""The training loop: a source gives batches, a learner learns from them, hooks are called after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

from rlox.configs import AlgorithmConfig
from rlox.rng import Streams
from rlox.sources.store import Store
from rlox.types import NO_UPDATE, Clock, FusedUpdate, Progress, Update

__all__ = [
    "FusedSourceProtocol",
    "Hook",
    "Learner",
    "Source",
    "Stateful",
    "Timings",
    "fit",
    "seeded_updates",
]

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)
B_contra = TypeVar("B_contra", contravariant=True)

Hook = Callable[[Clock, Progress, Update], None]


class Source(Protocol[B_co]):
    """A source of batches: rollouts, a replay buffer, a dataset, generated text."""

    @property
    def resume_grade(self) -> str:
        """How a resumed run continues: `exact`, or with new episodes (`episode_start`)."""

    def next(self, clock: Clock) -> tuple[B_co | FusedUpdate | None, Progress]:
        """Return the next batch, or `None` during warm-up; returns often enough for hooks and signals.

        A fused source returns a `FusedUpdate`: it has already learned from the batch in the same call.
        """

    def feedback(self, update: Update) -> None:
        """Receive the update after each batch; a replay source writes priorities and columns to its rows."""

    @property
    def stored_bytes(self) -> int:
        """Approximate disk space of the full buffer; 0 without one."""

    def save(self, store: Store) -> dict[str, Any]:
        """Return the state that `restore` needs; a buffer goes into the store."""

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from the state that `save` returned."""

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Say why `restore(state, ...)` does not continue exactly; empty if it does."""

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the last batch, for inspection when a number in it is not finite."""

    def close(self) -> None:
        """Release environments and processes."""


@runtime_checkable
class FusedSourceProtocol(Protocol):
    """A source that may learn in the call that collects."""

    @property
    def is_mid_update(self) -> bool:
        """Whether the last `next` was interrupted while learning rather than collecting."""


class Stateful(Protocol):
    """A part of a learner with a state: an optimizer, a target network, a temperature."""

    def state(self) -> dict[str, Any]:
        """Return copies of the state."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""


class Learner(Protocol[B_contra]):
    """Updates the weights from batches."""

    def update(self, batch: B_contra, clock: Clock) -> Update:
        """Learn from one batch; schedules read the clock."""

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Start from these weights instead of the initial ones."""

    def state(self) -> dict[str, Any]:
        """Return the `weights` and `optimizer` trees."""

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

    `begin_update` is called before each call of the learner: from then on an interruption may leave the
    weights partly updated.
    """
    hooks = tuple(hooks)
    timings = timings or Timings()
    while not done(clock):
        started = time.perf_counter()
        batch, progress = source.next(clock)
        collected = time.perf_counter()
        error = None
        if isinstance(batch, FusedUpdate):
            update, collected, error = batch.update, collected - batch.seconds, batch.error
        elif batch is None:
            update = NO_UPDATE
        else:
            begin_update()
            update = learner.update(batch, clock)
        source.feedback(update)
        timings.collect += collected - started
        timings.update += time.perf_counter() - collected
        clock = clock.tick(progress, update)
        try:
            for hook in hooks:
                hook(clock, progress, update)
        except BaseException as hook_error:
            if error is not None:
                raise hook_error from error
            raise
        if error is not None:
            raise error
    return clock


def seeded_updates(learner: Any, algo: AlgorithmConfig, streams: Streams, device: str) -> Any:
    """Return the learner; for networks of a user, one whose updates draw from seeded generators."""
    return _SeededUpdates(learner, streams, device) if algo.has_custom_policy else learner


class _SeededUpdates:
    """A learner whose draws from torch's default generators depend on the run's seed and the update only.

    Networks of a user may draw there, for dropout; other networks do not.
    """

    def __init__(self, learner: Learner[Any], streams: Streams, device: str) -> None:
        import torch

        self._learner, self._streams, self._device = learner, streams, torch.device(device)

    def update(self, batch: Any, clock: Clock) -> Update:
        """Learn from the batch."""
        with self._streams.seeded_generators("update", clock.updates, self._device):
            return self._learner.update(batch, clock)
