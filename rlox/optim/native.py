"""What optimizers and targets keep where the engine steps them: the vectors of torch's, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.parameters.layout import ParameterVector, as_array, copy_into, restore_moments

__all__ = ["ADAM_EPS", "ADAM_MOMENTS", "NativeOptimizer", "NativeTargetNetwork"]

ADAM_MOMENTS = ("exp_avg", "exp_avg_sq")  # its moments
ADAM_EPS = 1e-5  # of `rlox.optim.Adam` where nobody says otherwise


class NativeOptimizer:
    """Adam's or RMSprop's vectors beside that of the parameters; its state is what torch's has.

    Attributes
    ----------
    vector : of the parameters, float32
    moments : names of the vectors that the rule keeps, which are torch's
    lr, eps : of the next steps
    steps : how many were made
    """

    def __init__(
        self,
        parameters: ParameterVector,
        moments: Sequence[str],
        lr: float,
        eps: float,
        initial_moment: float = 0.0,
    ) -> None:
        self.vector, self.moments = parameters.vector, tuple(moments)
        self.lr, self.eps, self.steps = lr, eps, 0
        self._layout, self.lock = parameters.layout, parameters.lock
        self._moments = {name: parameters.layout.zeros() for name in moments}
        for moment in self._moments.values():
            moment += initial_moment

    def moment(self, name: str) -> NDArray[np.float32]:
        """The vector of this name in `moments`, which lies as the parameters do."""
        return self._moments[name]

    def state(self) -> dict[str, Any]:
        """Step count and copies of the moments, by parameter name."""
        views = {name: self._layout.views(vector) for name, vector in self._moments.items()}
        moments = {
            parameter: {name: views[name][parameter].copy() for name in self.moments}
            for parameter in self._layout.shapes
        }
        return {"steps": self.steps, "moments": moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of torch's; names or shapes that do not fit are an error."""
        self.steps = restore_moments(state, self._layout, self._moments, _copy_into)


class NativeTargetNetwork:
    """A vector of parameters that begins as another is and follows it; its state is what torch's has."""

    def __init__(self, online: ParameterVector) -> None:
        self._online, self._parameters = online, ParameterVector.zeros(online.layout.shapes.items())
        self.copy_online()

    @property
    def vector(self) -> NDArray[np.float32]:
        """Its parameters, which lie as the others do."""
        return self._parameters.vector

    def copy_online(self) -> None:
        """Become the other vector."""
        self.vector[:] = self._online.vector

    def polyak_update(self, tau: float) -> None:
        """target <- (1 - tau) target + tau online."""
        if tau == 1.0:
            self.copy_online()
        else:
            vector = self.vector
            vector += np.float32(tau) * (self._online.vector - vector)

    def state(self) -> dict[str, NDArray[np.float32]]:
        """Copies of the parameters by name."""
        return {name: view.copy() for name, view in self._parameters.views().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of torch's; CheckpointError for names or shapes that do not fit."""
        copy_into(self._parameters.views(), state)


def _copy_into(view: NDArray[np.float32], saved: Any) -> None:
    view[...] = as_array(saved)
