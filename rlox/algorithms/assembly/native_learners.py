"""Base classes and helpers of the native learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import explained_variance
from rlox.parameters.lazy_torch import LazyTorchModule
from rlox.parameters.optimizer import NativeOptimizer, NativeTargetNetwork
from rlox.training.loop import Stateful
from rlox.types import Rollout, Transitions

__all__ = [
    "NativeLearner",
    "NativeReplayLearner",
    "batch_columns",
    "rollout_explained_variance",
    "valid_rows",
]

A = NDArray[Any]


class NativeLearner:
    """A native policy and the optimizer of its parameters, which together form the learner's state.

    The state is interchangeable with that of the torch learner.
    """

    def __init__(self, native: LazyTorchModule, optimizer: NativeOptimizer) -> None:
        self.native, self.optimizer = native, optimizer

    @property
    def policy(self) -> Any:
        """The policy as a torch module that shares the parameters' memory."""
        return self.native.module

    def state(self) -> dict[str, Any]:
        """Return copies of the weights and optimizer moments, by parameter name."""
        weights = self.native.weights()
        return {"weights": weights, "optimizer": self.optimizer.state()}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Replace the initial weights by these."""
        self.native.load_state_dict(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.native.load_state_dict(state["weights"])
        self.optimizer.restore(state["optimizer"])


def valid_rows(rollout: Rollout) -> slice | NDArray[np.int64]:
    """Return the indices of the rows that are transitions, or a full slice if all are."""
    return slice(None) if rollout.valid is None else np.flatnonzero(np.asarray(rollout.valid))


def rollout_explained_variance(rollout: Rollout) -> float:
    """Return 1 - Var(R - V) / Var(R) over valid rows, computed as in Rust; 0 if R does not vary."""
    valid = valid_rows(rollout)
    return explained_variance(*(np.asarray(column)[valid] for column in (rollout.values, rollout.returns)))


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
