"""Networks of the user in the policies of DQN and SAC (`algo.policy`)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from rlox.envs.spaces import ObservationCodec
from rlox.errors import ConfigError
from rlox.networks import EnsembleMLP
from rlox.policies.base import evaluation_mode
from rlox.rng import seeded_default_generators

__all__ = [
    "OwnCritics",
    "OwnNetwork",
    "probe_rows",
    "require_actor_and_critic",
    "require_copy",
    "require_output",
]


class OwnNetwork(nn.Module):
    """A network of the user. It gets copies of its inputs, which it may modify (`obs /= 255`)."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return what the network computes from copies of the inputs."""
        outputs: Tensor = self.module(*(tensor.clone() for tensor in inputs))
        return outputs


class OwnCritics(EnsembleMLP):
    """Critics of the user: `critic(obs, actions)` -> `[members, B]`, or `critic(obs)` for choices."""

    def __init__(self, module: nn.Module) -> None:
        nn.Module.__init__(self)
        self.network: OwnNetwork = OwnNetwork(module)

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Return the value of each choice, `[members, B, n_actions]`."""
        outputs: Tensor = self.network(x)
        return outputs[:members]

    def with_actions(self, obs: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
        """Return the value of the actions, `[members, B, 1]`."""
        outputs: Tensor = self.network(obs, actions)
        return outputs[:members].unsqueeze(-1)


def require_actor_and_critic(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Return the modules `actor` and `critic` of a user's module.

    Raises `ConfigError` if one is missing, if they share a parameter, and if a parameter belongs to neither.
    """
    name = type(module).__name__
    parts = dict(module.named_children())
    for part in ("actor", "critic"):
        if part not in parts:
            raise ConfigError(
                f"policy {name} has the modules {', '.join(parts) or 'none'}, expected actor and critic"
            )
    groups = [set(parts[part].parameters()) for part in ("actor", "critic")]
    if groups[0] & groups[1]:
        raise ConfigError(
            f"policy {name}: actor and critic have parameters in common, expected networks of their own, "
            "because each has an optimizer"
        )
    if untrained := [n for n, p in module.named_parameters() if p not in groups[0] | groups[1]]:
        raise ConfigError(
            f"policy {name}: {untrained[0]} belongs neither to actor nor to critic, so nothing would train it"
        )
    return parts["actor"], parts["critic"]


def require_copy(name: str, network: OwnNetwork) -> None:
    """Raise `ConfigError` unless the network can be copied, for a target network; `name` is the network's."""
    try:
        copy.deepcopy(network)
    except (RuntimeError, TypeError) as error:
        raise ConfigError(
            f"{name} cannot be copied ({str(error).splitlines()[0]}), expected copy.deepcopy to work, which "
            "makes the target network; for torch.nn.utils.weight_norm use "
            "torch.nn.utils.parametrizations.weight_norm"
        ) from error


def probe_rows(observations: ObservationCodec, sizes: Collection[int], device: torch.device) -> Tensor:
    """Return some observations of zeros without mask; their number is none of `sizes`, to tell axes apart."""
    count = next(n for n in itertools.count(3) if n not in sizes)
    return torch.from_numpy(observations.rows(count)[:, : observations.input_dim]).to(device)


def require_output(
    name: str, network: OwnNetwork, inputs: tuple[Tensor, ...], shape: tuple[int, ...], meaning: str, env: str
) -> None:
    """Raise `ConfigError` unless the network returns float32 of this shape, and trains one of its parameters.

    `name` is the network's, `meaning` names the axes of the shape, `env` the environment.
    """
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    try:
        with torch.enable_grad(), evaluation_mode(network), seeded_default_generators(0, {inputs[0].device}):
            output: Any = network(*inputs)
    except (AttributeError, RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ConfigError(f"{name} fails on observations of {env}: {str(error).splitlines()[0]}") from error
    if not isinstance(output, Tensor) or output.shape != shape or output.dtype != torch.float32:
        is_tensor = isinstance(output, Tensor)
        result = f"{list(output.shape)} of {output.dtype}" if is_tensor else f"a {type(output).__name__}"
        raise ConfigError(
            f"{name} gave {result} for {env}, expected {list(shape)} of torch.float32: {meaning}"
        )
    gradients: tuple[Tensor | None, ...] = ()
    if output.requires_grad and trainable:
        gradients = torch.autograd.grad(output.sum(), trainable, allow_unused=True)
    if all(gradient is None for gradient in gradients):
        raise ConfigError(f"{name} gave values that depend on none of its trainable parameters")
