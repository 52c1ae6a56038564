"""Action values as the native engine knows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import DQNEngine, Explorer, ReplayIteration
from rlox.parameters.layout import Named, Part, linear_layers, widest
from rlox.policies.on_demand import OnDemand, Watched

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.optim import FlatParameters
    from rlox.policies.q import QPolicy

__all__ = ["NativeQ", "QSizes"]

ASKED = ("said", "by_choice", "trace", "worth")


@dataclass(frozen=True)
class QSizes:
    """What a network of action values is; `hidden` are its widths."""

    size: int  # choices
    obs_dim: int
    hidden: tuple[int, ...]
    activation: str
    dueling: bool

    @property
    def named(self) -> list[Named]:
        """Names and shapes of the parameters, in the order of torch's modules."""
        sizes = (self.obs_dim, *self.hidden)
        if not self.dueling:
            return linear_layers("q.", (*sizes, self.size))
        value, advantage = ((*sizes[-2:], out) for out in (1, self.size))
        return [
            *linear_layers("q.shared.", sizes[:-1]),
            *linear_layers("q.value.", value),
            *linear_layers("q.advantage.", advantage),
        ]

    def widest(self) -> int:
        """The largest number of inputs or outputs that a layer has."""
        return widest(self.named)


class NativeQ(OnDemand):
    """The engine of a `QPolicy` of vectors, over the vector of its parameters.

    Attributes
    ----------
    sizes : of the network
    engine : learns
    learns : what a training asks: the engine, or what collects before it hands on to it
    explorer : acts
    """

    def __init__(self, sizes: QSizes, seed: int, make: Callable[[], QPolicy]) -> None:
        """One with the weights that a run begins with; `make` gives its module.

        Raises ConfigError where the engine does not do what torch does (`golden`).
        """
        self.sizes = sizes
        self._on({"": Part.of(sizes.named)}, make)
        self._begin(seed)
        self.engine = DQNEngine(
            sizes.named,
            size=sizes.size,
            obs_dim=sizes.obs_dim,
            hidden=list(sizes.hidden),
            activation=sizes.activation,
            dueling=sizes.dueling,
        )
        self.learns: DQNEngine | ReplayIteration = self.engine
        self.explorer = Explorer(self.engine)

    def best(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The choices of the largest values, int64 `[n]`; `mask` is of engines that know masks."""
        assert mask is None
        chosen = np.full(len(obs), -1, np.int64)
        with self.using:
            self.explorer.act(self.vector, obs, chosen)
        return chosen

    def _watch(self, module: QPolicy, flats: Mapping[str, FlatParameters]) -> Watched:
        from rlox.networks import DuelingMLP
        from rlox.policies.plain import Plain

        net: Any = module.q
        dueling = isinstance(net, DuelingMLP)
        nets = (net.shared, net.value, net.advantage) if dueling else (net,)
        return Plain(module, nets, [(module, ASKED)], [flats[""]], ("returns",))
