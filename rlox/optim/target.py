"""Target networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from rlox.optim.flat_parameters import FlatParameters

__all__ = ["TargetNetwork"]

M = TypeVar("M", bound=nn.Module)


class TargetNetwork(Generic[M]):
    """A target network: `module` starts as a copy of `online` and follows it without gradients.

    `online` has the parameters of the learned network. `module` is another network of the same architecture.
    """

    def __init__(self, module: M, online: FlatParameters) -> None:
        self.module = module
        self._online = online
        self._flat = FlatParameters(module.requires_grad_(True), is_learned=False)
        module.requires_grad_(False)
        self.copy_online()

    @torch.no_grad()
    def copy_online(self) -> None:
        """Copy the online parameters."""
        self._flat.vector.copy_(self._online.vector)

    @torch.no_grad()
    def polyak_update(self, tau: float) -> None:
        """target <- (1 - tau) target + tau online, in one pass over all parameters."""
        if tau == 1.0:
            self.copy_online()
        else:
            self._flat.vector.lerp_(self._online.vector, tau)

    @property
    def vector(self) -> Tensor:
        """The target's parameters, in the layout of the online network's."""
        return self._flat.vector

    def state(self) -> dict[str, Tensor]:
        """Return copies of the parameters by name."""
        return {name: view.clone() for name, view in self._flat.views(self._flat.vector).items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.module.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})
