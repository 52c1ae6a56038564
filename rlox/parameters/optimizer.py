"""State of optimizers and target networks for the native engine, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.parameters.layout import ParameterVector, as_array, copy_into, restore_moments

__all__ = ["ADAM_EPS", "ADAM_MOMENTS", "NativeOptimizer", "NativeTargetNetwork"]

ADAM_MOMENTS = ("exp_avg", "exp_avg_sq")  # torch's names of Adam's moments
ADAM_EPS = 1e-5  # default of `rlox.optim.Adam`


class NativeOptimizer:
    """The parameters and moments of Adam or RMSprop; states are interchangeable with the torch optimizers'.

    Attributes
    ----------
    vector : the parameters, float32
    moment_names : names of the optimizer's moments, as in torch
    lr, eps : settings of the next steps
    steps : number of steps made
    """

    def __init__(
        self,
        parameters: ParameterVector,
        moments: Sequence[str],
        lr: float,
        eps: float,
        initial_moment: float = 0.0,
    ) -> None:
        self.vector, self.moment_names = parameters.vector, tuple(moments)
        self.lr, self.eps, self.steps = lr, eps, 0
        self._layout, self.lock = parameters.layout, parameters.lock
        self._moments = {name: parameters.layout.zeros() for name in moments}
        for moment in self._moments.values():
            moment += initial_moment

    def moment(self, name: str) -> NDArray[np.float32]:
        """Return the moment of this name, a vector in the layout of the parameters."""
        return self._moments[name]

    def state(self) -> dict[str, Any]:
        """Return the step count and copies of the moments, by parameter name."""
        views = {name: self._layout.views(vector) for name, vector in self._moments.items()}
        moments = {
            parameter: {name: views[name][parameter].copy() for name in self.moment_names}
            for parameter in self._layout.shapes
        }
        return {"steps": self.steps, "moments": moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of a torch optimizer; `CheckpointError` if names or shapes differ."""
        self.steps = restore_moments(state, self._layout, self._moments, _copy_into)


class NativeTargetNetwork:
    """Target network as a parameter vector; states are interchangeable with `rlox.optim.TargetNetwork`."""

    def __init__(self, online: ParameterVector) -> None:
        self._online, self._parameters = online, ParameterVector.zeros(online.layout.shapes.items())
        self.copy_online()

    @property
    def vector(self) -> NDArray[np.float32]:
        """The target's parameters, in the layout of the online network's."""
        return self._parameters.vector

    def copy_online(self) -> None:
        """Copy the online parameters."""
        self.vector[:] = self._online.vector

    def polyak_update(self, tau: float) -> None:
        """target <- (1 - tau) target + tau online."""
        if tau == 1.0:
            self.copy_online()
        else:
            vector = self.vector
            vector += np.float32(tau) * (self._online.vector - vector)

    def state(self) -> dict[str, NDArray[np.float32]]:
        """Return copies of the parameters by name."""
        return {name: view.copy() for name, view in self._parameters.views().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of a torch target; `CheckpointError` if names or shapes differ."""
        copy_into(self._parameters.views(), state)


def _copy_into(view: NDArray[np.float32], saved: Any) -> None:
    view[...] = as_array(saved)
