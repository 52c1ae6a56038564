"""Action values of vectors, and how target networks follow."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlox.errors import ConfigError
from rlox.networks.encoders import EncodedEnsemble
from rlox.networks.ensemble import EnsembleMLP
from rlox.networks.mlp import mlp
from rlox.networks.traced import Traced

__all__ = ["ActionValues", "QNetwork", "polyak_update", "q_values"]


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


def q_values(critics: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
    """Q_i(s, a) of several critics: `[B, obs_dim]`, vectors `[B, act_dim]` -> `[members, B]`."""
    values: Tensor = critics(torch.cat([obs, actions], -1))
    return values.squeeze(-1)


class ActionValues(Traced):
    """`q_values` and the ways back, to the critics and to the actions.

    `members`: only so many critics, the first, of which nothing is learned.
    """

    def __init__(
        self, critics: EnsembleMLP, obs: Tensor, actions: Tensor, members: int | None = None
    ) -> None:
        self._obs_dim = obs.shape[-1]
        if isinstance(critics, EncodedEnsemble):
            self._obs_dim, self._traced = 0, critics.trace_vectors(obs, actions, members)
        else:
            self._traced = critics.trace(torch.cat([obs, actions], -1), members)
        self.out = self._traced.out.squeeze(-1)

    def learn(self, gradient: Tensor) -> None:
        """The critics' gradients, for `gradient` `[members, B]`."""
        self._traced.learn(gradient.unsqueeze(-1))

    def back(self, gradient: Tensor) -> Tensor:
        """The gradient of the actions, `[B, act_dim]`."""
        return self._traced.back(gradient.unsqueeze(-1))[:, self._obs_dim :]


@torch.no_grad()
def polyak_update(source: nn.Module, target: nn.Module, tau: float) -> None:
    """target <- (1 - tau) target + tau source, parameter by parameter, in place; `tau` from 0 to 1."""
    if not 0.0 <= tau <= 1.0:
        raise ConfigError(f"polyak_update: tau={tau}, expected a number from 0 to 1")
    for s, t in zip(source.parameters(), target.parameters(), strict=True):
        t.lerp_(s, tau)
