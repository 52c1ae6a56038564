"""Policies of soft actor-critic: an actor, and critics of its actions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlox.networks import EnsembleMLP, SquashedGaussianPolicy, SquashedSDEPolicy
from rlox.networks.critics import critic_outputs, q_values
from rlox.policies.actors import CategoricalActor
from rlox.policies.base import Policy

__all__ = ["CategoricalSACPolicy", "QuantileSACPolicy", "SACPolicy", "SquashedSACPolicy"]


class SACPolicy(Policy):
    """An actor, and critics that estimate a state's value from the actor's actions in it.

    Methods get the critics as an argument, because they may be those of a target network. Results have
    gradients.
    """

    actor: nn.Module
    critic: EnsembleMLP

    @abstractmethod
    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """Return the shape of the standard normal noise that `draw` takes for a batch."""

    @abstractmethod
    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the actions for `obs` `[B, obs_dim]`, and their E[log pi] `[B]`."""

    @abstractmethod
    def value(self, critic: EnsembleMLP, obs: Tensor, sampled_actions: Tensor) -> Tensor:
        """Return the actor's expectation of min_i Q_i, `[B]`.

        `sampled_actions` are the first result of `draw`. If these are actions, one for each row, the result
        is an estimate; if they are probabilities of all actions, it is exact.
        """

    @abstractmethod
    def action_values(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """Return each critic's value of stored actions, `[members, B]`."""


class SquashedSACPolicy(SACPolicy):
    """A squashed Gaussian over actions in [-1, 1], and critics that take observation and action."""

    def __init__(self, actor: SquashedGaussianPolicy | SquashedSDEPolicy, critic: EnsembleMLP) -> None:
        super().__init__()
        self.actor: SquashedGaussianPolicy | SquashedSDEPolicy = actor
        self.critic = critic

    def mode(self, obs: Tensor) -> Tensor:
        """Return tanh of the mean, `[B, act_dim]`."""
        return self.actor.mode(obs)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B, act_dim]`."""
        return self.actor.sample(obs, generator)[0]

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """Return the shape: one noise vector per row; with gSDE one matrix for all rows of a batch."""
        if isinstance(self.actor, SquashedSDEPolicy):
            return (self.actor.features, self.actor.act_dim)
        return (batch, self.actor.act_dim)

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return one action per row, `[B, act_dim]`, and its log-density."""
        return self.actor.draw(obs, noise)

    def value(self, critic: EnsembleMLP, obs: Tensor, sampled_actions: Tensor) -> Tensor:
        """Return min_i Q_i(s, a) of the sampled action; its gradient is the lowest critic's."""
        return q_values(critic, obs, sampled_actions).min(0).values

    def action_values(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """Return Q_i(s, a) of actions `[B, act_dim]`."""
        return q_values(critic, obs, actions)


class QuantileSACPolicy(SquashedSACPolicy):
    """A squashed Gaussian, and critics whose outputs are quantiles of the return (TQC).

    Each critic has N outputs theta^j(s, a), for the probabilities (2 j - 1) / 2 N. Its value of an action is
    their mean.
    """

    def quantiles(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """Return theta_i^j(s, a) of actions `[B, act_dim]`, `[members, B, N]`."""
        return critic_outputs(critic, obs, actions)

    def value(self, critic: EnsembleMLP, obs: Tensor, sampled_actions: Tensor) -> Tensor:
        """Return the mean of all quantiles of all critics for the sampled action, `[B]`."""
        return self.quantiles(critic, obs, sampled_actions).mean((0, -1))

    def action_values(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """Return the mean of each critic's quantiles for actions `[B, act_dim]`, `[members, B]`."""
        return self.quantiles(critic, obs, actions).mean(-1)


class CategoricalSACPolicy(SACPolicy):
    """A categorical actor, and critics with a value for each action.

    Expectations are sums over all actions, so that nothing is sampled (Christodoulou 2019,
    arXiv:1910.07207, eqs. 10 and 12).
    """

    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        members: int,
        net_arch: Sequence[int],
        critic_net_arch: Sequence[int],
        activation: str,
        actor_obs_dim: int | None = None,
    ) -> None:
        super().__init__()
        actor_inputs = obs_dim if actor_obs_dim is None else actor_obs_dim
        self.actor: CategoricalActor = CategoricalActor(actor_inputs, n_actions, net_arch, activation)
        self.critic = EnsembleMLP(members, (obs_dim, *critic_net_arch, n_actions), activation)

    def mode(self, obs: Tensor) -> Tensor:
        """Return the most likely action `[B]`."""
        return self.actor.mode(obs)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B]`."""
        return self.actor.sample(obs, generator)

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """Return an empty shape: no noise is used."""
        return (0,)

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probability of each action, `[B, n_actions]`, and sum_a pi(a|s) log pi(a|s)."""
        log_p = torch.log_softmax(self.actor.net(obs), -1)
        p = log_p.exp()
        return p, (p * log_p).sum(-1)

    def value(self, critic: EnsembleMLP, obs: Tensor, sampled_actions: Tensor) -> Tensor:
        """Return sum_a pi(a|s) min_i Q_i(s, a)."""
        with torch.no_grad():  # the actor learns by its probabilities
            lowest: Tensor = critic(obs).amin(0)
        return (sampled_actions * lowest).sum(-1)

    def action_values(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """Return Q_i(s, a) of discrete actions `[B]`."""
        values: Tensor = critic(obs)
        return values.gather(-1, actions.expand(len(values), -1).unsqueeze(-1)).squeeze(-1)
