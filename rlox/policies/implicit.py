"""The policy, critics and value function of implicit Q-learning."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlox.networks import BoundedGaussianPolicy, EnsembleMLP, mlp
from rlox.policies.base import Policy
from rlox.policies.heads import sample_vectors

__all__ = ["IQLPolicy"]


class IQLPolicy(Policy):
    """A bounded Gaussian over actions in [-1, 1], critics of observation and action, and a value network.

    Parameters
    ----------
    obs_dim : length of the observation vector
    act_dim : length of the action vector
    members : number of critics
    net_arch : hidden widths of the actor
    critic_net_arch : hidden widths of each critic and of the value network
    activation : `tanh`, `relu`, `elu` or `silu`
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        members: int,
        net_arch: Sequence[int],
        critic_net_arch: Sequence[int],
        activation: str,
    ) -> None:
        super().__init__()
        self.actor = BoundedGaussianPolicy(obs_dim, act_dim, net_arch, activation)
        self.critic = EnsembleMLP(members, (obs_dim + act_dim, *critic_net_arch, 1), activation)
        self.value = mlp((obs_dim, *critic_net_arch, 1), activation)

    def mode(self, obs: Tensor) -> Tensor:
        """Return the mean `[B, act_dim]`."""
        return self.actor.mode(obs)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B, act_dim]`, clipped to [-1, 1]."""
        log_std = self.actor.std().log()
        return sample_vectors(self.mode(obs), log_std, generator).clamp(-1.0, 1.0)
