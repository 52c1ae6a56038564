"""What learners keep of their networks: copies of weights and of an optimizer's moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from rlox.optim import Optimizer

__all__ = ["PolicyLearner", "copy_weights"]

P = TypeVar("P", bound=nn.Module)


class PolicyLearner(Generic[P]):
    """A policy and the optimizer of all its parameters, which are the state of a learner."""

    def __init__(self, policy: P, optimizer: Optimizer) -> None:
        self.policy = policy
        self.optimizer = optimizer

    def state(self) -> dict[str, Any]:
        """Copies of the weights and optimizer moments, by parameter name."""
        return {"weights": copy_weights(self.policy), "optimizer": self.optimizer.state()}

    def begin_from(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones."""
        self.policy.load_state_dict(dict(weights))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(dict(state["weights"]))
        self.optimizer.restore(state["optimizer"])


def copy_weights(module: nn.Module) -> dict[str, Tensor]:
    """The parameters and buffers by name, apart from those that go on changing."""
    return {name: value.detach().clone() for name, value in module.state_dict().items()}
