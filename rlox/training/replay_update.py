"""Noise and results of updates from replayed transitions, shared by torch and native learners."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.types import Clock, Transitions, Update

__all__ = ["Stateful", "build_update", "update_label", "update_noise"]


class Stateful(Protocol):
    """A part of a learner with a state: an optimizer, a target network, a temperature."""

    def state(self) -> dict[str, Any]:
        """Return copies of the state."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""


def update_noise(seed: int, update: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return standard normal numbers that are a function of the run's seed and the update's number."""
    return Stream(seed, "noise", update).standard_normal(math.prod(shape)).reshape(shape)


def update_label(batch: Transitions, clock: Clock) -> str:
    """Name an update for messages."""
    return f"update {clock.updates} (env_steps {batch.env_steps})"


def build_update(
    batch: Transitions, metrics: Mapping[str, float], errors: NDArray[np.floating[Any]] | None
) -> Update:
    """Return the `Update` for these batches; absolute `errors` `[n, B]` become priorities of the rows."""
    samples = math.prod(batch.rewards.shape)
    if batch.weights is None or errors is None:
        return Update(metrics, len(batch), samples)
    priorities = np.abs(errors.ravel()).astype(np.float64)
    return Update(metrics, len(batch), samples, {"priorities": priorities}, batch.indices.ravel())
