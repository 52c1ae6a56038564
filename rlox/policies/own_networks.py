"""Networks of the user in the policies of DQN and SAC (`algo.policy`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rlox.errors import ConfigError
from rlox.networks import EnsembleMLP
from rlox.rng import seeded_default_generators

__all__ = ["OwnCritics", "OwnNetwork", "require_actor_and_critic", "require_output"]


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

    Raises `ConfigError` if one is missing, if they share a parameter, and if neither has a parameter.
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


def require_output(
    name: str, compute: Callable[[], Any], shape: tuple[int, ...], meaning: str, env: str
) -> None:
    """Raise `ConfigError` unless `compute` returns a tensor of this shape with a gradient.

    `name` is the network's, `meaning` names the axes of the shape, `env` the environment.
    """
    try:
        with torch.enable_grad(), seeded_default_generators(0):
            output = compute()
    except (AttributeError, RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ConfigError(f"{name} fails on observations of {env}: {str(error).splitlines()[0]}") from error
    if not isinstance(output, Tensor) or output.shape != shape:
        found = list(output.shape) if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise ConfigError(f"{name} gave {found} for {env}, expected {list(shape)}: {meaning}")
    if not output.requires_grad:
        raise ConfigError(f"{name} gave values without a gradient, so nothing would be learned")
