"""Base class and helpers of the native learners of replayed transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.optim.native import NativeTargetNetwork
from rlox.policies.lazy_torch import LazyTorchModule
from rlox.training.replay_update import Stateful
from rlox.types import Transitions

__all__ = ["NativeReplayLearner", "batch_columns"]

A = NDArray[Any]


class NativeReplayLearner:
    """A native policy with the optimizers and target networks that learn from replayed transitions.

    `parts` are optimizers and target networks by name. `targets` are the target networks alone, which start
    as copies of the online networks. The state is interchangeable with that of the torch learner.
    """

    def __init__(
        self, native: LazyTorchModule, parts: Mapping[str, Stateful], targets: Sequence[NativeTargetNetwork]
    ) -> None:
        self._native, self._parts, self._targets = native, parts, targets

    @property
    def policy(self) -> Any:
        """The policy as a torch module that shares the parameters' memory."""
        return self._native.module

    def state(self) -> dict[str, Any]:
        """Return copies of the weights, and the state of every optimizer and target."""
        weights = self._native.weights()
        return {
            "weights": weights,
            "optimizer": {name: part.state() for name, part in self._parts.items()},
        }

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Replace the initial weights by these, in the target networks too."""
        self._native.load_state_dict(weights)
        for target in self._targets:
            target.copy_online()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._native.load_state_dict(state["weights"])
        for name, part in self._parts.items():
            part.restore(state["optimizer"][name])


def batch_columns(batch: Transitions) -> tuple[A, A, A, A, A]:
    """Return observations, actions, rewards, next observations and discounts as arrays for an engine."""
    obs, actions, rewards = map(np.asarray, (batch.obs, batch.actions, batch.rewards))
    return obs, actions, rewards, np.asarray(batch.next_obs), np.asarray(batch.discounts)
