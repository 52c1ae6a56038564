"""Actors and critics of vectors as the native engines know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlox._core import Explorer, ReplayIteration, SACEngine, TD3Engine
from rlox.parameters.layout import Named, Part, linear_layers, widest
from rlox.policies.on_demand import OnDemand, Watched

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.optim import FlatParameters
    from rlox.policies.deterministic import DeterministicPolicy
    from rlox.policies.soft import SquashedPolicy

__all__ = ["NativeDeterministic", "NativeSquashed", "VectorSizes"]

E = TypeVar("E", SACEngine, TD3Engine)


@dataclass(frozen=True)
class VectorSizes:
    """What an actor of vectors and its critics are; `outputs` are the actor's, `size` an action's."""

    obs_dim: int
    size: int
    outputs: int
    members: int  # critics
    actor: tuple[int, ...]  # hidden widths
    critic: tuple[int, ...]
    activation: str

    def actors(self, prefix: str = "") -> list[Named]:
        """Names and shapes of the actor's parameters, in the order of torch's modules."""
        return linear_layers(prefix, (self.obs_dim, *self.actor, self.outputs))

    @property
    def critics(self) -> list[Named]:
        """Those of the critics: of each layer the weights of all, then the biases."""
        pairs = list(pairwise((self.obs_dim + self.size, *self.critic, 1)))
        weights = [(self.members, outputs, inputs) for inputs, outputs in pairs]
        biases = [(self.members, outputs) for _, outputs in pairs]
        return [
            *((f"weights.{i}", shape) for i, shape in enumerate(weights)),
            *((f"biases.{i}", shape) for i, shape in enumerate(biases)),
        ]

    def widest(self) -> int:
        """The largest number of inputs or outputs that a layer has."""
        return widest([*self.actors(), *self.critics])


class NativeVectors(OnDemand):
    """The engine of an actor and critics, over the vectors of their parameters.

    Attributes
    ----------
    sizes : of the networks
    explorer : acts
    """

    ACTS = "actor"

    sizes: VectorSizes
    explorer: Explorer

    def best(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """What the actor does without noise, float32 `[n, size]`; a `mask` is of choices."""
        assert mask is None
        actions = np.zeros((len(obs), self.sizes.size), np.float32)
        with self.using:
            self.explorer.act(self.vector, obs, actions, np.zeros_like(actions))
        return actions

    def _of(
        self, sizes: VectorSizes, prefix: str, seed: int, make: Callable[[], Any], kind: type[E]
    ) -> E:
        """Take the weights that a run begins with; the engine of such networks."""
        self.sizes = sizes
        actor, critic = Part.of(sizes.actors(prefix)), Part.of(sizes.critics)
        self._on({"actor": actor, "critic": critic}, make)
        self._begin(seed)
        return kind(
            sizes.actors("actor."),
            sizes.critics,
            obs_dim=sizes.obs_dim,
            size=sizes.size,
            members=sizes.members,
            actor=list(sizes.actor),
            critic=list(sizes.critic),
            activation=sizes.activation,
        )


class NativeDeterministic(NativeVectors):
    """The engine of a `DeterministicPolicy` of vectors; `deviation` is that of its exploring noise."""

    def __init__(
        self,
        sizes: VectorSizes,
        seed: int,
        make: Callable[[], DeterministicPolicy],
        deviation: float,
    ) -> None:
        """One with the weights that a run begins with; `make` gives its module.

        Raises ConfigError where the engine does not do what torch does (`golden`).
        """
        self.engine = self._of(sizes, "", seed, make, TD3Engine)
        self.learns: TD3Engine | ReplayIteration = self.engine
        self.explorer = Explorer(self.engine, deviation)

    def _watch(self, module: DeterministicPolicy, flats: Mapping[str, FlatParameters]) -> Watched:
        from rlox.policies.plain import Plain

        asked = [(module, ("act",)), (module.critic, ("trace",))]
        return Plain(module, (module.actor,), asked, [*flats.values()])


class NativeSquashed(NativeVectors):
    """The engine of a `SquashedPolicy` of vectors without gSDE."""

    def __init__(self, sizes: VectorSizes, seed: int, make: Callable[[], SquashedPolicy]) -> None:
        """One with the weights that a run begins with; `make` gives its module.

        Raises ConfigError where the engine does not do what torch does (`golden`).
        """
        self.engine = self._of(sizes, "net.", seed, make, SACEngine)
        self.learns: SACEngine | ReplayIteration = self.engine
        self.explorer = Explorer(self.engine)

    def _watch(self, module: SquashedPolicy, flats: Mapping[str, FlatParameters]) -> Watched:
        from rlox.policies.plain import Plain

        asked = [
            (module, ("draw", "value", "taken")),
            (module.actor, ("trace", "draw", "explore")),
            (module.critic, ("trace",)),
        ]
        return Plain(module, (module.actor.net,), asked, [*flats.values()])

    def _asked(self) -> tuple[Any, ...]:
        return self._module, self._module.actor
