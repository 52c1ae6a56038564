"""Action values as the native engine knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import DQNEngine, Explorer, ReplayIteration
from rlox.parameters.layout import NamedShape, ParameterVector, linear_shapes, max_width
from rlox.policies.lazy_torch import LazyTorchModule, ModuleGuard

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.optim import FlatParameters
    from rlox.policies.q_policy import QPolicy

__all__ = ["NativeQ", "QSizes"]

GUARDED_METHODS = ("outputs", "reshape_outputs", "trace", "q_values")


@dataclass(frozen=True)
class QSizes:
    """What a network of action values is; `hidden` are its widths."""

    size: int  # choices
    obs_dim: int
    hidden: tuple[int, ...]
    activation: str
    dueling: bool

    @property
    def parameter_shapes(self) -> list[NamedShape]:
        """Names and shapes of the parameters, in the order of torch's modules."""
        sizes = (self.obs_dim, *self.hidden)
        if not self.dueling:
            return linear_shapes("q.", (*sizes, self.size))
        value, advantage = ((*sizes[-2:], out) for out in (1, self.size))
        return [
            *linear_shapes("q.shared.", sizes[:-1]),
            *linear_shapes("q.value.", value),
            *linear_shapes("q.advantage.", advantage),
        ]

    def max_width(self) -> int:
        """The largest number of inputs or outputs that a layer has."""
        return max_width(self.parameter_shapes)


class NativeQ(LazyTorchModule):
    """The engine of a `QPolicy` of vectors, over the vector of its parameters.

    Attributes
    ----------
    sizes : of the network
    engine : learns
    update_engine : what a training asks: the engine, or what collects before it hands on to it
    explorer : acts
    """

    def __init__(self, sizes: QSizes, seed: int, make_module: Callable[[], QPolicy]) -> None:
        """One with the weights that a run begins with; `make_module` gives its module.

        Raises ConfigError where the engine does not do what torch does (`self_test`).
        """
        self.sizes = sizes
        self._init_parameters({"": ParameterVector.zeros(sizes.parameter_shapes)}, make_module)
        self._init_weights(seed)
        self.engine = DQNEngine(
            sizes.parameter_shapes,
            size=sizes.size,
            obs_dim=sizes.obs_dim,
            hidden=list(sizes.hidden),
            activation=sizes.activation,
            dueling=sizes.dueling,
        )
        self.update_engine: DQNEngine | ReplayIteration = self.engine
        self.explorer = Explorer(self.engine)

    def best_actions(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The choices of the largest values, int64 `[n]`; `mask` is of engines that know masks."""
        assert mask is None
        actions = np.full(len(obs), -1, np.int64)
        with self.lock:
            self.explorer.act(self.vector, obs, actions)
        return actions

    def _make_guard(self, module: QPolicy, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        from rlox.networks import DuelingMLP
        from rlox.policies.mlp_guard import MLPGuard

        net: Any = module.q
        dueling = isinstance(net, DuelingMLP)
        nets = (net.shared, net.value, net.advantage) if dueling else (net,)
        return MLPGuard(module, nets, [(module, GUARDED_METHODS)], [flats[""]], ("value_distribution",))
