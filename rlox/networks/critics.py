"""Q(s, a) of continuous actions, and the update of target networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from numbers import Real

import torch
from torch import Tensor, nn

from rlox.errors import ConfigError, ShapeError
from rlox.networks.mlp import EnsembleMLP, mlp, resolve_widths

__all__ = ["QNetwork", "critic_outputs", "polyak_update", "q_values"]


class QNetwork(nn.Module):
    """Q(s, a) of a continuous action: an MLP of the concatenated observation and action.

    Parameters
    ----------
    obs_dim : length of the observation vector
    act_dim : length of the action vector
    hidden : width of two hidden layers, unless `net_arch` gives all widths
    net_arch : hidden widths
    activation : `tanh`, `relu`, `elu` or `silu`
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: int = 256,
        net_arch: Sequence[int] | None = None,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        widths = resolve_widths(hidden, net_arch, obs_dim=obs_dim, act_dim=act_dim)
        self.net = mlp((obs_dim + act_dim, *widths, 1), activation)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """Compute values: `[B, obs_dim]`, `[B, act_dim]` -> `[B, 1]`."""
        value: Tensor = self.net(torch.cat([obs, action], -1))
        return value


def q_values(critics: EnsembleMLP, obs: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
    """Return Q_i(s, a) of all critics, or the first `members`.

    `obs` is `[B, obs_dim]` (rows of images, if the critics have an encoder), `actions` `[B, act_dim]`; the
    result is `[members, B]`.
    """
    return critic_outputs(critics, obs, actions, members).squeeze(-1)


def critic_outputs(critics: EnsembleMLP, obs: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
    """Return all outputs for the inputs of `q_values`, `[members, B, outputs]`."""
    return critics.with_actions(obs, actions, members)


@torch.no_grad()
def polyak_update(source: nn.Module, target: nn.Module, tau: float) -> None:
    """target <- (1 - tau) target + tau source, parameter by parameter, in place; `tau` from 0 to 1.

    Raises `ConfigError` for another `tau` and for objects that are not modules, `ShapeError` for parameters
    of different shapes, dtypes or devices.
    """
    if not isinstance(tau, Real) or not 0.0 <= tau <= 1.0:
        raise ConfigError(f"polyak_update: tau={tau!r}, expected a number from 0 to 1")
    for name, module in (("source", source), ("target", target)):
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"polyak_update: {name} is a {type(module).__name__}, expected a torch.nn.Module"
            )
    pairs = list(zip_longest(source.named_parameters(), target.named_parameters()))
    for source_parameter, target_parameter in pairs:
        if _describe(source_parameter) != _describe(target_parameter):
            raise ShapeError(
                f"polyak_update: parameter {(source_parameter or target_parameter)[0]} is "
                f"{_describe(source_parameter)} in the source and {_describe(target_parameter)} in the "
                "target; create both with the same arguments"
            )
    for (_, s), (_, t) in pairs:
        t.lerp_(s, float(tau))


def _describe(named_parameter: tuple[str, Tensor] | None) -> str:
    if named_parameter is None:
        return "missing"
    return (
        f"{str(named_parameter[1].dtype).removeprefix('torch.')} {list(named_parameter[1].shape)} on "
        f"{named_parameter[1].device}"
    )
