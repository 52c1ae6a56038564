"""Policies that learn from datasets as the native engines know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import CloningEngine, Explorer, IQLEngine
from rlox.parameters.layout import Part, linear_layers, widest
from rlox.policies.native_vectors import NativeVectors, VectorSizes
from rlox.policies.on_demand import OnDemand, Watched

if TYPE_CHECKING:
    from rlox.optim import FlatParameters
    from rlox.policies.implicit import ImplicitPolicy

__all__ = ["NativeCloned", "NativeImplicit"]


class NativeImplicit(NativeVectors):
    """The engine of an `ImplicitPolicy` of vectors."""

    def __init__(self, sizes: VectorSizes, seed: int, make: Callable[[], ImplicitPolicy]) -> None:
        """One with the weights that a run begins with; `make` gives its module.

        Raises ConfigError where the engine does not do what torch does (`golden`).
        """
        self.sizes = sizes
        own = ("log_std", (sizes.size,))
        widths = (sizes.obs_dim, *sizes.critic, 1)
        parts = {
            "actor": Part.of([own, *sizes.actors("net.")]),
            "critic": Part.of(sizes.critics),
            "value": Part.of(linear_layers("", widths)),
        }
        self._on(parts, make)
        self._begin(seed)
        self.engine = IQLEngine(
            [own, *sizes.actors("actor.")],
            sizes.critics,
            linear_layers("value.", widths),
            obs_dim=sizes.obs_dim,
            size=sizes.size,
            members=sizes.members,
            actor=list(sizes.actor),
            critic=list(sizes.critic),
            activation=sizes.activation,
        )
        self.explorer = Explorer(self.engine)

    def _watch(self, module: ImplicitPolicy, flats: Mapping[str, FlatParameters]) -> Watched:
        from rlox.policies.plain import Plain

        asked = [(module.actor, ("trace", "deviation")), (module.critic, ("trace",))]
        return Plain(module, (module.actor.net, module.value), asked, [*flats.values()])

    def _asked(self) -> tuple[Any, ...]:
        return self._module, self._module.actor


class NativeCloned(OnDemand):
    """The engine of a `CategoricalActor` or a `GaussianActor`.

    Attributes
    ----------
    choices : whether actions are choices, else vectors
    """

    def __init__(
        self,
        choices: bool,
        size: int,
        obs_dim: int,
        hidden: Sequence[int],
        activation: str,
        seed: int,
        make: Callable[[], Any],
    ) -> None:
        """One with the weights that a run begins with; `make` gives its module.

        Raises ConfigError where the engine does not do what torch does (`golden`).
        """
        self.choices, self._size = choices, size
        layers = linear_layers("net.", (obs_dim, *hidden, size))
        named = layers if choices else [("log_std", (size,)), *layers]
        self._on({"": Part.of(named)}, make)
        self._begin(seed)
        self.engine = CloningEngine(
            named,
            kind="choices" if choices else "numbers",
            size=size,
            obs_dim=obs_dim,
            hidden=list(hidden),
            activation=activation,
        )

    def widest(self) -> int:
        """The largest number of inputs or outputs that a layer has."""
        return widest(self.parts[""].layout.shapes.items())

    def best(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The likeliest choices `[n]`, or means `[n, size]`; masks are of other policies."""
        assert mask is None
        said = np.zeros((len(obs), self._size), np.float32)
        with self.using:
            self.engine.outputs(self.vector, obs, said)
        return said.argmax(-1) if self.choices else said

    def _watch(self, module: Any, flats: Mapping[str, FlatParameters]) -> Watched:
        from rlox.policies.plain import Plain

        return Plain(module, (module.net,), [(module, ("score",))], [*flats.values()])
