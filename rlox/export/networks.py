"""The network of an exported policy: its layers, and how its outputs become actions."""

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
from rlox.networks.gaussians import SDE_MEAN_LIMIT
from rlox.networks.mlp import ACTIVATIONS
from rlox.policies import ContinuousPolicy, DiscretePolicy, SDEPolicy
from rlox.policies.actors import CategoricalActor, GaussianActor
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.implicit import IQLPolicy
from rlox.policies.q_policy import QPolicy
from rlox.policies.soft import CategoricalSACPolicy, QuantileSACPolicy, SquashedSACPolicy
from rlox.policies.value_distribution import ScalarValue

__all__ = ["LinearLayers", "Network", "extract_network", "unsupported_export"]

# Reasons why policies of these classes cannot be exported, by class name.
UNSUPPORTED_REASONS = {
    "UserPolicy": "methods of your own",
    "RecurrentActorCritic": "a memory",
    "DecisionTransformerPolicy": "a memory, and needs a target return",
    "FactoredPolicy": "actions of several parts",
    "FactoredActor": "actions of several parts",
    "MaskedDiscretePolicy": "masks of actions",
    "MaskedFactoredPolicy": "masks of actions",
    "MaskedQPolicy": "masks of actions",
    "OwnNetwork": "networks of your own (algo.policy)",
    "MinQPolicy": "several networks, of which the lowest counts",
}


@dataclass(frozen=True)
class LinearLayers:
    """Linear layers under one name, each with weight `[outputs, inputs]` and bias `[outputs]`, float32."""

    name: str
    weights: tuple[NDArray[np.float32], ...]
    biases: tuple[NDArray[np.float32], ...]

    def tensors(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Iterate over the tensors, named as in a torch `Sequential`: `NAME.0.weight`, `NAME.0.bias`, ..."""
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            yield f"{self.name}.{2 * i}.weight", weight
            yield f"{self.name}.{2 * i}.bias", bias


@dataclass(frozen=True)
class Network:
    """A network over vectors, with the rule that turns its outputs into actions.

    Attributes
    ----------
    parts : one stack of layers; three for dueling networks: shared (may be empty), value, advantage
    sizes : inputs, hidden widths, outputs
    activation : applied between layers, and after the shared layers
    head : `categorical` and `q` (argmax of the outputs), `gaussian` (outputs clipped to the bounds),
        `squashed` and `deterministic` (tanh of the outputs, rescaled to the bounds)
    torch_forward : maps network inputs `[B, inputs]` to outputs `[B, outputs]` with torch
    mean_limit : a squashed policy's outputs are clipped to [-mean_limit, mean_limit] before the tanh
    """

    parts: tuple[LinearLayers, ...]
    sizes: tuple[int, ...]
    activation: str
    head: str
    torch_forward: Callable[[Tensor], Tensor]
    mean_limit: float | None = None

    @property
    def is_dueling(self) -> bool:
        """Whether value and advantage have separate layers."""
        return len(self.parts) == 3

    @property
    def is_discrete(self) -> bool:
        """Whether actions are discrete."""
        return self.head in ("categorical", "q")

    def tensors(self) -> Mapping[str, NDArray[np.float32]]:
        """Return all tensors by name."""
        return dict(named for part in self.parts for named in part.tensors())


def extract_network(policy: Any) -> Network:
    """Return the network that a built-in policy over vectors uses in evaluation.

    Raises ConfigError, with the reason, for any other policy, because a subclass may compute anything.
    """
    policy_class = type(policy)
    if policy_class is QPolicy:
        return _q_network(policy)
    if policy_class in (SquashedSACPolicy, QuantileSACPolicy):
        return _squashed_network(policy.actor)
    if policy_class is CategoricalSACPolicy:
        return extract_network(policy.actor)
    if policy_class in (DiscretePolicy, ContinuousPolicy, SDEPolicy):
        return _mlp_network(policy.actor, "categorical" if policy_class is DiscretePolicy else "gaussian")
    if policy_class in (CategoricalActor, GaussianActor):
        return _mlp_network(policy.net, "categorical" if policy_class is CategoricalActor else "gaussian")
    if policy_class is DeterministicPolicy:
        return _mlp_network(policy.actor, "deterministic")
    if policy_class is IQLPolicy and type(policy.actor) is BoundedGaussianPolicy:
        return _mlp_network(policy.actor.net, "deterministic")
    raise unsupported_export(
        UNSUPPORTED_REASONS.get(
            policy_class.__name__, f"a {policy_class.__name__}, not a built-in policy of vectors"
        )
    )


def unsupported_export(description: str) -> ConfigError:
    """Return the error for a policy with a property that no exported file can hold."""
    return ConfigError(
        f"the policy has {description}, expected one network of linear layers over the numbers of an "
        "observation, and one choice or one Box as action; play it from Python: from_checkpoint(path)"
    )


def _mlp_network(net: Any, head: str) -> Network:
    layers, activation = _extract_layers(net, "q" if head == "q" else "actor")
    return Network((layers,), _layer_widths(layers), activation or "tanh", head, net)


def _squashed_network(actor: Any) -> Network:
    """Return the network for the means of a squashed Gaussian, without the standard deviations."""
    if type(actor) not in (SquashedGaussianPolicy, SquashedSDEPolicy):
        raise unsupported_export(f"a {type(actor).__name__}, not a built-in actor")
    layers, activation = _extract_layers(actor.net, "actor")
    mean_limit = SDE_MEAN_LIMIT if type(actor) is SquashedSDEPolicy else None
    *hidden, last = layers.weights
    *hidden_biases, bias = layers.biases
    n = actor.act_dim
    layers = LinearLayers("actor", (*hidden, last[:n].copy()), (*hidden_biases, bias[:n].copy()))

    def forward_means(obs: Tensor) -> Tensor:
        outputs: Tensor = actor.net(obs)
        return outputs[..., :n]

    return Network(
        (layers,), _layer_widths(layers), activation or "tanh", "squashed", forward_means, mean_limit
    )


def _q_network(policy: QPolicy) -> Network:
    if policy.noise_size:
        raise unsupported_export("noisy layers")
    if type(policy.value_distribution) is not ScalarValue:
        raise unsupported_export("distributions of returns")
    net: Any = policy.q
    if any(isinstance(layer, nn.LayerNorm) for layer in net.modules()):
        raise unsupported_export("layer normalisation")
    if type(net) is not DuelingMLP:
        return _mlp_network(net, "q")
    named_parts = (("shared", net.shared), ("value", net.value), ("advantage", net.advantage))
    extracted_layers = [
        _extract_layers(part, f"q.{name}", activate_last=name == "shared") for name, part in named_parts
    ]
    shared, value, advantage = (layers for layers, _ in extracted_layers)
    sizes = (*_layer_widths(shared)[:-1], *_layer_widths(advantage))
    activations = {activation for _, activation in extracted_layers if activation}
    if len(activations) > 1:
        raise unsupported_export(f"layers with {' and '.join(sorted(activations))} between them")
    return Network((shared, value, advantage), sizes, activations.pop(), "q", net)


def _extract_layers(net: Any, name: str, activate_last: bool = False) -> tuple[LinearLayers, str | None]:
    """Return the linear layers of a net as `mlp` builds it, and the name of the activation.

    With `activate_last`, an activation follows the last layer. Raises ConfigError for other layers.
    """
    if type(net) is not nn.Sequential:
        name = type(net).__name__
        raise unsupported_export(UNSUPPORTED_REASONS.get(name, f"a {name}, not a network of vectors"))
    linear_layers: list[Any] = list(net)[::2]
    activations = list(net)[1::2]
    activation_names = {_activation_name(layer) for layer in activations}
    is_linear = all(type(layer) is nn.Linear and layer.bias is not None for layer in linear_layers)
    if (
        not is_linear
        or None in activation_names
        or len(activation_names) > 1
        or len(activations) != len(linear_layers) - (not activate_last)
    ):
        raise unsupported_export(f"other layers than linear ones with one activation between them: {name}")
    weights = tuple(layer.weight.detach().cpu().numpy().copy() for layer in linear_layers)
    biases = tuple(layer.bias.detach().cpu().numpy().copy() for layer in linear_layers)
    return LinearLayers(name, weights, biases), activation_names.pop() if activation_names else None


def _activation_name(layer: nn.Module) -> str | None:
    """Return the activation's name; None if it is unknown or not in torch's default settings."""
    names = (name for name, activation_class in ACTIVATIONS.items() if type(layer) is activation_class)
    return next(names, None) if getattr(layer, "alpha", 1.0) == 1.0 else None


def _layer_widths(layers: LinearLayers) -> tuple[int, ...]:
    """Return inputs, widths and outputs; an empty tuple without layers."""
    widths = [len(weight) for weight in layers.weights]
    return (layers.weights[0].shape[1], *widths) if widths else ()
