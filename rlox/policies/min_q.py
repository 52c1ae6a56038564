"""The policy of conservative Q-learning for Discrete actions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlox.networks import EnsembleMLP
from rlox.policies.base import Policy

__all__ = ["MinQPolicy"]


class MinQPolicy(Policy):
    """Critics with a value for each action; the action with the highest minimum over critics is taken.

    Parameters
    ----------
    obs_dim : length of the observation vector
    n_actions : number of discrete actions
    members : number of critics
    net_arch : hidden widths
    activation : `tanh`, `relu`, `elu` or `silu`
    """

    def __init__(
        self, obs_dim: int, n_actions: int, members: int, net_arch: Sequence[int], activation: str
    ) -> None:
        super().__init__()
        self.critic = EnsembleMLP(members, (obs_dim, *net_arch, n_actions), activation)

    def forward(self, obs: Tensor) -> Tensor:
        """Return min_i Q_i(s, .), `[B, n_actions]`."""
        lowest: Tensor = self.critic(obs).amin(0)
        return lowest

    def mode(self, obs: Tensor) -> Tensor:
        """Return the best action `[B]`."""
        actions: Tensor = self(obs).argmax(-1)
        return actions

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the same as `mode`; the policy is deterministic."""
        return self.mode(obs)
