"""Actors and critics of vectors as the native engines know them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlox._core import ReplayIteration, SACEngine, TD3Engine
from rlox.networks import EnsembleMLP, SquashedGaussianPolicy
from rlox.networks.mlp import ACTIVATIONS
from rlox.optim import FlatParameters
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.engine import refused
from rlox.policies.plain import Plain
from rlox.policies.soft import SoftPolicy, SquashedPolicy

__all__ = ["NativeDeterministic", "NativeSquashed"]

E = TypeVar("E", SACEngine, TD3Engine)


class Vectors:
    """An actor's network and critics, and what is asked of them in a training."""

    def __init__(
        self,
        policy: nn.Module,
        parts: Callable[[], tuple[nn.Module, nn.Module]],
        vectors: tuple[FlatParameters, FlatParameters],
        asked: Sequence[str],
    ) -> None:
        self._policy, self._parts, self._asked = policy, parts, tuple(asked)
        self._were = actor, critic = parts()
        if type(actor) is not nn.Sequential or type(critic) is not EnsembleMLP:
            raise refused("of other layers than those that it was made of")
        self._flat = vectors[0]
        self.actor = Plain(actor, (actor,), ("forward",), vectors[0])
        self.critic = Plain(critic, (), ("forward", "trace"), vectors[1])

    @property
    def vector(self) -> NDArray[np.float32]:
        """The actor's parameters, which torch's modules have views of."""
        vector: NDArray[np.float32] = self._flat.vector.numpy()
        return vector

    def check(self) -> None:
        """Raise ConfigError for what a training would pass over; it costs some microseconds."""
        if own := [name for name in self._asked if name in self._policy.__dict__]:
            raise refused(f"one with a {own[0]} of its own")
        if self._parts() != self._were:
            raise refused("of other layers than those that it was made of")
        self.actor.check()
        self.critic.check()


class NativeDeterministic(Vectors):
    """The engine of a `DeterministicPolicy` of vectors, over the vectors of its actor and of its critics.

    Raises ConfigError for what `Plain` refuses, of actor or critics, all of which torch learns from.
    """

    def __init__(
        self, policy: DeterministicPolicy, actor: FlatParameters, critic: FlatParameters
    ) -> None:
        super().__init__(policy, lambda: (policy.actor, policy.critic), (actor, critic), ("act",))
        size = self.actor.linear[0][-1].out_features
        self.engine = _engine(TD3Engine, self.actor, policy.critic, size)
        self.learns: TD3Engine | ReplayIteration = self.engine


class NativeSquashed(Vectors):
    """The engine of a `SquashedPolicy` of vectors, over the vectors of its actor and of its critics.

    Raises ConfigError for choices and gSDE, and for what `Plain` refuses, all of which torch learns from.
    """

    def __init__(self, policy: SoftPolicy, actor: FlatParameters, critic: FlatParameters) -> None:
        if type(policy) is not SquashedPolicy:
            raise refused(f"a {type(policy).__name__}, not one of vectors")
        gaussian = policy.actor
        if type(gaussian) is not SquashedGaussianPolicy:
            raise refused(f"one with a {type(gaussian).__name__}, not a squashed Gaussian")
        asked = ("draw", "value", "taken")
        super().__init__(policy, lambda: (gaussian.net, policy.critic), (actor, critic), asked)
        self._gaussian = Plain(gaussian, (), ("forward", "trace", "draw"), actor)
        self.engine = _engine(SACEngine, self.actor, policy.critic, gaussian.act_dim)
        self.learns: SACEngine | ReplayIteration = self.engine

    def check(self) -> None:
        """Raise ConfigError for what a training would pass over."""
        super().check()
        self._gaussian.check()


def _engine(kind: type[E], actor: Plain, critics: EnsembleMLP, size: int) -> E:
    (layers,) = actor.linear
    named = [(f"actor.{name}", shape) for name, shape in actor.named]
    stacked = [(name, tuple(value.shape)) for name, value in critics.named_parameters()]
    between = [name for name, made in ACTIVATIONS.items() if type(critics.activation) is made]
    if not between or (len(layers) > 1 and between[0] != actor.activation):
        raise refused("of other layers than those that it was made of")
    return kind(
        named,
        stacked,
        obs_dim=layers[0].in_features,
        size=size,
        members=len(critics.weights[0]),
        actor=[layer.out_features for layer in layers[:-1]],
        critic=[weight.shape[1] for weight in critics.weights][:-1],
        activation=between[0],
    )
