"""What learners of rollouts in Rust have in common."""

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
    """A policy in Rust and the optimizer of all its parameters, which are the state of a learner.

    The state is what torch's learner has: each goes on from the other's.
    """

    def __init__(self, native: NativePolicy, optimizer: NativeOptimizer) -> None:
        self.native, self.optimizer = native, optimizer

    @property
    def policy(self) -> Any:
        """The policy as torch has it, on the same memory."""
        return self.native.module

    def state(self) -> dict[str, Any]:
        """Copies of the weights and optimizer moments, by parameter name."""
        weights = self.native.weights()
        return {"weights": weights, "optimizer": self.optimizer.state()}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones."""
        self.native.load_state_dict(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.native.load_state_dict(state["weights"])
        self.optimizer.restore(state["optimizer"])


def valid_rows(rollout: Rollout) -> slice | NDArray[np.int64]:
    """Which rows are transitions: a slice where all are."""
    return slice(None) if rollout.valid is None else np.flatnonzero(np.asarray(rollout.valid))


def rollout_explained_variance(rollout: Rollout) -> float:
    """1 - Var(R - V) / Var(R) of the valid rows, as iterations in Rust say it; 0 when R does not vary."""
    valid = valid_rows(rollout)
    return explained_variance(*(np.asarray(column)[valid] for column in (rollout.values, rollout.returns)))
