"""Native action-value networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import Explorer, OffPolicyEngine
from rlox.parameters.layout import NamedShape, ParameterVector, linear_shapes, max_width
from rlox.parameters.lazy_torch import LazyTorchModule, ModuleGuard

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
    from rlox.optim import FlatParameters
    from rlox.policies.q_policy import QPolicy

__all__ = ["NativeQPolicy", "QSizes"]

GUARDED_METHODS = ("outputs", "reshape_outputs", "q_values")


@dataclass(frozen=True)
class QSizes:
    """The sizes of an action-value network; `hidden` are its hidden widths."""

    size: int  # number of discrete actions
    obs_dim: int
    hidden: tuple[int, ...]
    activation: str
    dueling: bool

    @property
    def parameter_shapes(self) -> list[NamedShape]:
        """Names and shapes of the parameters, in the order of torch's modules."""
        widths = (self.obs_dim, *self.hidden)
        if not self.dueling:
            return linear_shapes("q.", (*widths, self.size))
        value, advantage = ((*widths[-2:], out) for out in (1, self.size))
        return [
            *linear_shapes("q.shared.", widths[:-1]),
            *linear_shapes("q.value.", value),
            *linear_shapes("q.advantage.", advantage),
        ]

    def max_width(self) -> int:
        """Return the largest number of inputs or outputs of a layer."""
        return max_width(self.parameter_shapes)


class NativeQPolicy(LazyTorchModule):
    """A `QPolicy` of observation vectors in Rust, over one vector of parameters.

    Attributes
    ----------
    sizes : sizes of the network
    engine : computes the updates
    explorer : chooses actions in training
    """

    def __init__(self, sizes: QSizes, seed: int, make_module: Callable[[], QPolicy]) -> None:
        """Set the initial weights of a run; `make_module` returns the torch module.

        Raises ConfigError if the engine's results differ from torch's (`self_test`).
        """
        self.sizes = sizes
        self._init_parameters({"": ParameterVector.zeros(sizes.parameter_shapes)}, make_module)
        self._init_weights(seed)
        self.engine = OffPolicyEngine(
            "dqn",
            {"q": sizes.parameter_shapes},
            size=sizes.size,
            obs_dim=sizes.obs_dim,
            hidden=list(sizes.hidden),
            activation=sizes.activation,
            dueling=sizes.dueling,
        )
        self.explorer = Explorer(self.engine)

    def best_actions(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the actions with the largest values, int64 `[n]`; masks are not supported."""
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
