"""Actors without a value function: a distribution of actions for each observation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.networks import mlp
from rlox.networks.gaussians import log_normal
from rlox.policies.base import Policy
from rlox.policies.factored import FactoredHead
from rlox.policies.heads import sample_choices, sample_vectors

__all__ = ["CategoricalActor", "FactoredActor", "GaussianActor"]


class CategoricalActor(Policy):
    """A distribution over `n_actions` discrete actions; an MLP computes the logits."""

    def __init__(self, obs_dim: int, n_actions: int, net_arch: Sequence[int], activation: str) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.net = mlp((obs_dim, *net_arch, n_actions), activation)

    def mode(self, obs: Tensor) -> Tensor:
        """Return the most likely action `[B]`."""
        actions: Tensor = self.net(obs).argmax(-1)
        return actions

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B]`."""
        return sample_choices(self.net(obs), generator)

    def score(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of `actions` `[B]`, and the most likely actions `[B]`."""
        logits = self.net(obs)
        return -functional.cross_entropy(logits, actions, reduction="none"), logits.argmax(-1)


class GaussianActor(Policy):
    """A Gaussian over actions `[act_dim]`: an MLP computes the mean; `log_std` is a parameter."""

    def __init__(self, obs_dim: int, act_dim: int, net_arch: Sequence[int], activation: str) -> None:
        super().__init__()
        self.net = mlp((obs_dim, *net_arch, act_dim), activation)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def mode(self, obs: Tensor) -> Tensor:
        """Return the mean `[B, act_dim]`."""
        mean: Tensor = self.net(obs)
        return mean

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B, act_dim]`."""
        return sample_vectors(self.mode(obs), self.log_std, generator)

    def score(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-density `[B]` of actions `[B, act_dim]`, and the means."""
        mean = self.mode(obs)
        return log_normal(actions, mean, self.log_std).sum(-1), mean


class FactoredActor(Policy):
    """A distribution over actions of several parts: a `FactoredHead` with an MLP."""

    def __init__(
        self,
        obs_dim: int,
        choices: Sequence[int],
        vector_size: int,
        net_arch: Sequence[int],
        activation: str,
    ) -> None:
        super().__init__()
        self.head = FactoredHead(choices, vector_size)
        self.net = mlp((obs_dim, *net_arch, self.head.size), activation)

    def mode(self, obs: Tensor) -> Tensor:
        """Return the most likely choices and the means, `[B, len(choices) + vector_size]`."""
        return self.head.mode(self.net(obs))

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B, len(choices) + vector_size]`."""
        return self.head.sample(self.net(obs), generator)

    def score(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability `[B]` of rows `[B, len(choices) + vector_size]`, and the best rows."""
        outputs = self.net(obs)
        return self.head.score(outputs, actions)[0], self.head.mode(outputs)
