"""Multilayer perceptrons and ensembles of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.errors import ConfigError

__all__ = [
    "ACTIVATIONS",
    "FUSED",
    "EnsembleMLP",
    "inference_function",
    "mlp",
    "parse_widths",
    "require_activation",
    "resolve_widths",
]

# Activations that inference applies in place.
FUSED: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.ReLU: torch.relu_,
    nn.Tanh: torch.tanh_,
}


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "silu": nn.SiLU,
}


def mlp(sizes: Sequence[int], activation: str = "tanh", layer_norm: bool = False) -> nn.Sequential:
    """Return linear layers `sizes[0] -> ... -> sizes[-1]` with `activation` between them, none at the end.

    With `layer_norm`, layer normalisation (Ba et al. 2016) precedes each activation.
    """
    require_activation(activation)
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        if i:
            layers += [nn.LayerNorm(inputs)] * layer_norm
            layers.append(ACTIVATIONS[activation]())
        layers.append(nn.Linear(inputs, outputs))
    return nn.Sequential(*layers)


def require_activation(name: str) -> None:
    """Raise `ConfigError` for an unknown activation."""
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise ConfigError(f"activation={name!r}: expected one of {', '.join(ACTIVATIONS)}")


def resolve_widths(hidden: int, net_arch: Sequence[int] | None, **sizes: int) -> tuple[int, ...]:
    """Return the hidden widths: `net_arch`, or `hidden` twice; raise `ConfigError` for an invalid number.

    `sizes` are further sizes to check, by name.
    """
    for name, size in {"hidden": hidden, **sizes}.items():
        if not _is_width(size):
            raise ConfigError(f"{name}={size!r}: expected a whole number of at least 1")
    return (hidden, hidden) if net_arch is None else parse_widths("net_arch", net_arch)


def parse_widths(name: str, value: Sequence[int]) -> tuple[int, ...]:
    """Return the hidden widths given as argument `name`; raise `ConfigError` if they are invalid."""
    is_list = isinstance(value, Iterable) and not isinstance(value, str)
    if not is_list or not all(map(_is_width, widths := tuple(value))):
        raise ConfigError(f"{name}={value!r}: expected hidden widths, whole numbers from 1, as in [64, 64]")
    return widths


def _is_width(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def inference_function(net: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return `net` as a plain function for many small calls without gradients.

    It skips module dispatch, which costs as much as the arithmetic at the batch sizes of collection,
    and applies activations in place. It uses the same kernels and weights, so results are bit-identical.
    A net is returned as it is if its layers are not those of `mlp`, if its activation is not in `FUSED`, or
    if it has hooks.
    """
    layers = _plain_layers(net)
    if layers is None:
        return net
    weights, biases, activation_class = layers
    parameter_pairs, activation = list(zip(weights, biases, strict=True)), FUSED[activation_class]

    def forward(x: Tensor) -> Tensor:
        for weight, bias in parameter_pairs[:-1]:
            x = activation(functional.linear(x, weight, bias))
        return functional.linear(x, *parameter_pairs[-1])

    return forward


def _plain_layers(net: nn.Module) -> tuple[list[Tensor], list[Tensor], type[nn.Module]] | None:
    """Return weights, biases and activation of a net made by `mlp`, if its activation is in `FUSED`."""
    if type(net) is not nn.Sequential:
        return None
    layers = list(net._modules.values())
    layer_classes: tuple[type[nn.Module], ...] = (
        nn.Linear,
        type(layers[1]) if len(layers) > 1 else nn.Module,
    )
    if layer_classes[1] not in FUSED or len(layers) % 2 == 0 or is_hooked(net):
        return None
    for i, layer in enumerate(layers):
        if type(layer) is not layer_classes[i % 2] or is_hooked(layer):
            return None
    # `_parameters`, because attribute access on a module searches four places
    parameters: list[dict[str, Any]] = [layer._parameters for layer in layers[::2]]
    weights, biases = ([p[name] for p in parameters] for name in ("weight", "bias"))
    # too few distinct parameters: a bias is missing, or a layer occurs twice
    if len({id(p) for p in (*weights, *biases) if p is not None}) < len(layers) + 1:
        return None
    return weights, biases, layer_classes[1]


def is_hooked(module: nn.Module) -> bool:
    """Return whether the module has hooks, or its parameters have gradient hooks."""
    for parameter in module._parameters.values():
        if parameter is not None and parameter._backward_hooks:
            return True
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


class EnsembleMLP(nn.Module):
    """`members` MLPs `sizes[0] -> ... -> sizes[-1]`, each as made by `mlp`, without shared parameters.

    Weights of layer i are `weights[i]` `[members, out, in]` and `biases[i]` `[members, out]`, so that a
    layer of all members is one batched matrix multiplication. With small networks a call to torch costs more
    than its arithmetic.
    """

    def __init__(self, members: int, sizes: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        require_activation(activation)
        layers = [[nn.Linear(inputs, outputs) for inputs, outputs in pairwise(sizes)] for _ in range(members)]
        self.weights, self.biases = (
            nn.ParameterList(
                nn.Parameter(torch.stack([getattr(layer, name).detach() for layer in member_layers]))
                for member_layers in zip(*layers, strict=True)
            )
            for name in ("weight", "bias")
        )
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Compute `[members, B, out]` from one `[B, in]` for all networks, or for the first `members`."""
        x = x.mT.expand(len(self.weights[0]) if members is None else members, *x.mT.shape)
        # W x + b with rows as columns: so autograd computes the gradient of W in the layout of W
        for i, (weight, bias) in enumerate(self.layers(members)):
            x = torch.baddbmm(bias.unsqueeze(-1), weight, self.activation(x) if i else x)
        return x.mT

    def with_actions(self, obs: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
        """Compute `[members, B, out]` from observations `[B, obs_dim]` and actions `[B, act_dim]`."""
        outputs: Tensor = self(torch.cat([obs, actions], -1), members)
        return outputs

    def layers(self, members: int | None = None) -> list[tuple[Tensor, Tensor]]:
        """Return weight and bias of each layer, of all networks or of the first `members`."""
        pairs = zip(self.weights, self.biases, strict=True)
        # not `weight[:None]`: its gradient would be copied once more
        return [(w, b) if members is None else (w[:members], b[:members]) for w, b in pairs]
