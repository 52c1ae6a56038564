"""The policy and critics of the deterministic policy gradient (DDPG, TD3)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlox.networks import EnsembleMLP, inference_function, mlp
from rlox.policies.base import Policy

__all__ = ["DeterministicPolicy"]


class DeterministicPolicy(Policy):
    """An actor, whose action is the tanh of an MLP's output, and critics that take observation and action.

    Parameters
    ----------
    obs_dim : length of the observation vector
    act_dim : length of the action vector
    members : number of critics
    net_arch, critic_net_arch : hidden widths
    activation : `tanh`, `relu`, `elu` or `silu`
    actor_obs_dim : length of the actor's input, if it is not the whole observation
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        members: int,
        net_arch: Sequence[int],
        critic_net_arch: Sequence[int],
        activation: str,
        actor_obs_dim: int | None = None,
    ) -> None:
        super().__init__()
        self.actor = mlp(
            (obs_dim if actor_obs_dim is None else actor_obs_dim, *net_arch, act_dim), activation
        )
        self.critic = EnsembleMLP(members, (obs_dim + act_dim, *critic_net_arch, 1), activation)

    def act(self, obs: Tensor) -> Tensor:
        """Return the action `[B, act_dim]`, with gradient."""
        action: Tensor = self.actor(obs).tanh()
        return action

    def mode(self, obs: Tensor) -> Tensor:
        """Return the action `[B, act_dim]`."""
        return inference_function(self.actor)(obs).tanh()

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the same as `mode`; the policy is deterministic."""
        return self.mode(obs)
