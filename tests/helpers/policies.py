"""Policies with known answers, and one policy as a user would write it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rlox.policies import ActorCritic
from rlox.policies.base import Sampler


class KnownCritic(ActorCritic):
    """A policy whose V(obs) is a function from the test; it always takes action 0."""

    def __init__(self, value: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.value = value

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        return lambda obs, t: torch.zeros(len(obs), dtype=torch.int64)

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        zero = torch.zeros(len(obs))
        return zero, zero, self.get_value(obs)

    def get_value(self, obs: Tensor) -> Tensor:
        return self.value(obs)

    def mode(self, obs: Tensor) -> Tensor:
        return torch.zeros(len(obs), dtype=torch.int64)

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.mode(obs), torch.zeros(len(obs))


class UserMlp(nn.Module):
    """A module with the three documented methods and an `actor`, written with torch.distributions."""

    def __init__(self, obs_dim: int, n_actions: int) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, n_actions))
        self.critic = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, 1))

    def get_action_and_logprob(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.distributions.Categorical(logits=self.actor(obs))
        action = chosen.sample()
        return action, chosen.log_prob(action)

    def get_value(self, obs: Tensor) -> Tensor:
        return self.critic(obs)

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        chosen = torch.distributions.Categorical(logits=self.actor(obs))
        return chosen.log_prob(actions), chosen.entropy()
