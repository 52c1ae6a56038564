"""What of a policy is exported: its network's layers, and what is made of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.errors import ConfigError
from rlox.networks import (
    BoundedGaussianPolicy,
    DuelingMLP,
    SquashedGaussianPolicy,
    SquashedSDEPolicy,
)
from rlox.networks.mlp import ACTIVATIONS
from rlox.networks.squashed import SDE_MEAN_LIMIT
from rlox.policies import ContinuousPolicy, DiscretePolicy, SDEPolicy
from rlox.policies.actors import CategoricalActor, GaussianActor
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.implicit import ImplicitPolicy
from rlox.policies.q import QPolicy
from rlox.policies.returns import Expectation
from rlox.policies.soft import CategoricalSoftPolicy, SquashedPolicy

__all__ = ["Layers", "Network", "network_of", "refused"]

# What refuses a policy is what makes it of its class.
WHY = {
    "UserPolicy": "methods of your own",
    "RecurrentActorCritic": "a memory",
    "Conditioned": "a memory, and is asked for a return",
    "FactoredPolicy": "actions of several parts",
    "FactoredActor": "actions of several parts",
    "MaskedDiscretePolicy": "masks of actions",
    "MaskedFactoredPolicy": "masks of actions",
    "MaskedQPolicy": "masks of actions",
    "LowestQPolicy": "several networks, of which the lowest counts",
}


@dataclass(frozen=True)
class Layers:
    """Linear layers under one name, each a weight `[outputs, inputs]` and a bias `[outputs]`, float32."""

    name: str
    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Its tensors as torch calls those of a `Sequential`: `NAME.0.weight`, `NAME.0.bias`, ..."""
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            yield f"{self.name}.{2 * i}.weight", weight
            yield f"{self.name}.{2 * i}.bias", bias


@dataclass(frozen=True)
class Network:
    """A network of vectors, and which action its outputs mean.

    Attributes
    ----------
    parts : one; of dueling streams three: shared (which may have no layers), value, advantage
    sizes : inputs, hidden widths, outputs
    activation : between the layers, and behind what is shared
    head : `categorical` and `q` (the greatest output acts), `gaussian` (the outputs, cut to the bounds),
        `squashed` and `deterministic` (tanh of them, stretched over the bounds)
    says : the outputs `[B, outputs]` of what the network sees `[B, inputs]`, by torch
    mean_limit : what the outputs of a squashed policy are cut off at before the tanh, on both sides
    """

    parts: tuple[Layers, ...]
    sizes: tuple[int, ...]
    activation: str
    head: str
    says: Callable[[Tensor], Tensor]
    mean_limit: float | None = None

    @property
    def dueling(self) -> bool:
        """Whether value and advantage have streams of their own."""
        return len(self.parts) == 3

    @property
    def chooses(self) -> bool:
        """Whether an action is a choice."""
        return self.head in ("categorical", "q")

    def tensors(self) -> Mapping[str, NDArray[np.float32]]:
        """All its tensors by name."""
        return dict(named for part in self.parts for named in part.tensors())


def network_of(policy: Any) -> Network:
    """The network by which a built-in policy of vectors acts when it is evaluated.

    Raises ConfigError, naming what it is, for any other policy: subclasses may do anything.
    """
    kind = type(policy)
    if kind is QPolicy:
        return _action_values(policy)
    if kind is SquashedPolicy:
        return _squashed(policy.actor)
    if kind is CategoricalSoftPolicy:
        return network_of(policy.actor)
    if kind in (DiscretePolicy, ContinuousPolicy, SDEPolicy):
        return _plain(policy.actor, "categorical" if kind is DiscretePolicy else "gaussian")
    if kind in (CategoricalActor, GaussianActor):
        return _plain(policy.net, "categorical" if kind is CategoricalActor else "gaussian")
    if kind is DeterministicPolicy:
        return _plain(policy.actor, "deterministic")
    if kind is ImplicitPolicy and type(policy.actor) is BoundedGaussianPolicy:
        return _plain(policy.actor.net, "deterministic")
    raise refused(WHY.get(kind.__name__, f"a {kind.__name__}, not a built-in policy of vectors"))


def refused(what: str) -> ConfigError:
    """An error that says what the policy has that no file can hold."""
    return ConfigError(
        f"the policy has {what}, expected one network of linear layers over the numbers of an "
        "observation, and one choice or one Box as action; play it from Python: from_checkpoint(path)"
    )


def _plain(net: Any, head: str) -> Network:
    layers, activation = _layers(net, "q" if head == "q" else "actor")
    return Network((layers,), _sizes(layers), activation or "tanh", head, net)


def _squashed(actor: Any) -> Network:
    """Of a squashed Gaussian: means alone, without the deviations that its last layer gives too."""
    if type(actor) not in (SquashedGaussianPolicy, SquashedSDEPolicy):
        raise refused(f"a {type(actor).__name__}, not a built-in actor")
    layers, activation = _layers(actor.net, "actor")
    limit = SDE_MEAN_LIMIT if type(actor) is SquashedSDEPolicy else None
    *hidden, last = layers.weights
    *before, bias = layers.biases
    n = actor.act_dim
    layers = Layers("actor", (*hidden, last[:n].copy()), (*before, bias[:n].copy()))

    def says(seen: Tensor) -> Tensor:
        outputs: Tensor = actor.net(seen)
        return outputs[..., :n]

    return Network((layers,), _sizes(layers), activation or "tanh", "squashed", says, limit)


def _action_values(policy: QPolicy) -> Network:
    if policy.noise_size:
        raise refused("noisy layers")
    if type(policy.returns) is not Expectation:
        raise refused("distributions of returns")
    net: Any = policy.q
    if type(net) is not DuelingMLP:
        return _plain(net, "q")
    named = (("shared", net.shared), ("value", net.value), ("advantage", net.advantage))
    told = [_layers(part, f"q.{name}", ends=name == "shared") for name, part in named]
    shared, value, advantage = (layers for layers, _ in told)
    sizes = (*_sizes(shared)[:-1], *_sizes(advantage))
    activations = {activation for _, activation in told if activation}
    if len(activations) > 1:
        raise refused(f"layers with {' and '.join(sorted(activations))} between them")
    return Network((shared, value, advantage), sizes, activations.pop(), "q", net)


def _layers(net: Any, name: str, ends: bool = False) -> tuple[Layers, str | None]:
    """The layers of a net as `mlp` makes it, with an activation behind the last if it `ends`; the activation.

    Raises ConfigError for other layers.
    """
    if type(net) is not nn.Sequential:
        raise refused(f"a {type(net).__name__}, not a network of vectors")
    linear: list[Any] = list(net)[::2]
    between = list(net)[1::2]
    kinds = {_activation(layer) for layer in between}
    whole = all(type(layer) is nn.Linear and layer.bias is not None for layer in linear)
    if not whole or None in kinds or len(kinds) > 1 or len(between) != len(linear) - (not ends):
        raise refused(f"other layers than linear ones with one activation between them: {name}")
    weights = tuple(layer.weight.detach().cpu().numpy().copy() for layer in linear)
    biases = tuple(layer.bias.detach().cpu().numpy().copy() for layer in linear)
    return Layers(name, weights, biases), kinds.pop() if kinds else None


def _activation(layer: nn.Module) -> str | None:
    """The activation that this is, with torch's own settings."""
    found = (name for name, made in ACTIVATIONS.items() if type(layer) is made)
    return next(found, None) if getattr(layer, "alpha", 1.0) == 1.0 else None


def _sizes(layers: Layers) -> tuple[int, ...]:
    """Inputs, widths and outputs; nothing where there are no layers."""
    widths = [len(weight) for weight in layers.weights]
    return (layers.weights[0].shape[1], *widths) if widths else ()
