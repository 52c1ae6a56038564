"""Policies of soft actor-critic: an actor, and critics of its actions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rlox.networks import (
    ActionValues,
    EnsembleMLP,
    SquashedGaussianPolicy,
    SquashedSDEPolicy,
    trace,
)
from rlox.policies.actors import CategoricalActor
from rlox.policies.base import Policy

__all__ = ["CategoricalSACPolicy", "SACPolicy", "SquashedSACPolicy"]


class SACPolicy(Policy):
    """An actor, and critics that estimate a state's value from the actor's actions in it.

    Methods get the critics as an argument, because they may be those of a target network. Results are
    detached and come with a backward function (`rlox.networks.traced`), which writes the gradients of
    parameters to their `grad`, or returns those of the critics' inputs.
    """

    actor: nn.Module
    critic: EnsembleMLP

    @abstractmethod
    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """Return the shape of the standard normal noise that `draw` takes for a batch."""

    @abstractmethod
    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], None]]:
        """Return the actions for `obs` `[B, obs_dim]`, their E[log pi] `[B]`, and the backward function."""

    @abstractmethod
    def value(
        self, critic: EnsembleMLP, obs: Tensor, sampled_actions: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return the actor's expectation of min_i Q_i, `[B]`, and the backward function.

        `sampled_actions` are the first result of `draw`. If these are actions, one for each row, the result
        is an estimate; if they are probabilities of all actions, it is exact.
        """

    @abstractmethod
    def action_values(
        self, critic: EnsembleMLP, obs: Tensor, actions: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Return each critic's value of stored actions, `[members, B]`, and the backward function."""


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

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], None]]:
        """Return one action per row, `[B, act_dim]`, its log-density, and the backward function."""
        return self.actor.trace(obs, noise)

    def value(
        self, critic: EnsembleMLP, obs: Tensor, sampled_actions: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return min_i Q_i(s, a) of the sampled action; its gradient is the lowest critic's."""
        q = ActionValues(critic, obs, sampled_actions)
        lowest, min_index = q.out.min(0)

        def back(slope: Tensor) -> Tensor:
            return q.back(torch.zeros_like(q.out).scatter_(0, min_index[None], slope[None]))

        return lowest, back

    def action_values(
        self, critic: EnsembleMLP, obs: Tensor, actions: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Return Q_i(s, a) of actions `[B, act_dim]`."""
        q = ActionValues(critic, obs, actions)
        return q.out, q.learn


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
    ) -> None:
        super().__init__()
        self.actor: CategoricalActor = CategoricalActor(obs_dim, n_actions, net_arch, activation)
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

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Callable[[Tensor, Tensor], None]]:
        """Return the probability of each action, `[B, n_actions]`, and sum_a pi(a|s) log pi(a|s)."""
        net = trace(self.actor.net, obs)
        log_p = torch.log_softmax(net.out, -1)
        p = log_p.exp()

        def learn(to_p: Tensor, to_mean: Tensor) -> None:
            # d log p_a = d logit_a - sum_b p_b d logit_b, and d p_a = p_a d log p_a. In
            # d (p log p) = (log p + 1) dp the 1 has no effect, as the dp sum to 0.
            slope = p * (to_p + to_mean.unsqueeze(-1) * log_p)
            net.learn(slope - p * slope.sum(-1, keepdim=True))

        return p, (p * log_p).sum(-1), learn

    def value(
        self, critic: EnsembleMLP, obs: Tensor, sampled_actions: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """Return sum_a pi(a|s) min_i Q_i(s, a); the backward function gives the probabilities' gradient."""
        lowest = critic.trace(obs).out.amin(0)
        return (sampled_actions * lowest).sum(-1), lambda slope: slope.unsqueeze(-1) * lowest

    def action_values(
        self, critic: EnsembleMLP, obs: Tensor, actions: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Return Q_i(s, a) of discrete actions `[B]`."""
        values = critic.trace(obs)
        index = actions.expand(len(values.out), -1).unsqueeze(-1)

        def learn(slope: Tensor) -> None:
            values.learn(torch.zeros_like(values.out).scatter_(-1, index, slope.unsqueeze(-1)))

        return values.out.gather(-1, index).squeeze(-1), learn
