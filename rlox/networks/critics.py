"""Action values of vectors, and how target networks follow."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlox.networks.ensemble import EnsembleMLP
from rlox.networks.mlp import mlp

__all__ = ["QNetwork", "polyak_update", "q_values"]


class QNetwork(nn.Module):
    """Q(s, a) of a vector `a`: an MLP of the observation and the action beside each other.

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
        widths = (hidden, hidden) if net_arch is None else tuple(net_arch)
        self.net = mlp((obs_dim + act_dim, *widths, 1), activation)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        """`[B, obs_dim]`, `[B, act_dim]` -> values `[B, 1]`."""
        value: Tensor = self.net(torch.cat([obs, action], -1))
        return value


def q_values(
    critics: EnsembleMLP,
    obs: Tensor,
    actions: Tensor,
    frozen: bool = False,
    members: int | None = None,
) -> Tensor:
    """Q_i(s, a) of several critics: `[B, obs_dim]`, vectors `[B, act_dim]` -> `[members, B]`.

    `frozen`: no gradient is asked for but that of the actions. `members`: only so many critics.
    """
    values: Tensor = critics(torch.cat([obs, actions], -1), frozen, members)
    return values.squeeze(-1)


@torch.no_grad()
def polyak_update(source: nn.Module, target: nn.Module, tau: float) -> None:
    """target <- (1 - tau) target + tau source, parameter by parameter, in place."""
    for s, t in zip(source.parameters(), target.parameters(), strict=True):
        t.lerp_(s, tau)
