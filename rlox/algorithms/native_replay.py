"""What learners of replayed transitions in Rust have in common."""

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
    """A policy in Rust with `parts` by name, of which `targets` begin as the networks that they follow.

    The state is what torch's learner has: each goes on from the other's.
    """

    def __init__(
        self, native: LazyTorchModule, parts: Mapping[str, Stateful], targets: Sequence[NativeTargetNetwork]
    ) -> None:
        self._native, self._parts, self._targets = native, parts, targets

    @property
    def policy(self) -> Any:
        """The policy as torch has it, on the same memory."""
        return self._native.module

    def state(self) -> dict[str, Any]:
        """Copies of the weights, and the state of every part."""
        weights = self._native.weights()
        return {
            "weights": weights,
            "optimizer": {name: part.state() for name, part in self._parts.items()},
        }

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones, the targets too."""
        self._native.load_state_dict(weights)
        for target in self._targets:
            target.copy_online()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._native.load_state_dict(state["weights"])
        for name, part in self._parts.items():
            part.restore(state["optimizer"][name])


def batch_columns(batch: Transitions) -> tuple[A, A, A, A, A]:
    """Observations, actions, rewards, next observations and discounts, as engines take them."""
    obs, actions, rewards = map(np.asarray, (batch.obs, batch.actions, batch.rewards))
    return obs, actions, rewards, np.asarray(batch.next_obs), np.asarray(batch.discounts)
