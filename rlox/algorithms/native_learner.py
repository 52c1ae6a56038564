"""Base class and helpers of the native on-policy learners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import explained_variance
from rlox.optim.native import NativeOptimizer
from rlox.policies.native import NativePolicy
from rlox.types import Rollout

__all__ = ["NativeLearner", "rollout_explained_variance", "valid_rows"]


class NativeLearner:
    """A native policy and the optimizer of its parameters, which together form the learner's state.

    The state is interchangeable with that of the torch learner.
    """

    def __init__(self, native: NativePolicy, optimizer: NativeOptimizer) -> None:
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
