"""What soft actor-critic acts and learns with: an actor, and critics of what it does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlox.networks import EnsembleMLP, SquashedGaussianPolicy, SquashedSDEPolicy, learning, q_values
from rlox.policies.actors import CategoricalActor
from rlox.policies.base import Policy

__all__ = ["CategoricalSoftPolicy", "SoftPolicy", "SquashedPolicy"]


class SoftPolicy(Policy):
    """An actor, and critics which of a state and what the actor does there give its value.

    The critics are handed in where values are asked for: they may be those of a target network.
    """

    actor: nn.Module
    critic: EnsembleMLP

    @abstractmethod
    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """Of the standard normal numbers that `draw` takes for so many rows."""

    @abstractmethod
    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """What the actor does in `obs` `[B, obs_dim]`, with gradient, and E[log pi] of it, `[B]`."""

    @abstractmethod
    def value(self, critic: EnsembleMLP, obs: Tensor, drawn: Tensor) -> Tensor:
        """What the lowest critic says of that, in the mean over what was `drawn`: `[B]`."""

    @abstractmethod
    def taken(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """What each critic says of stored actions: `[members, B]`."""


class SquashedPolicy(SoftPolicy):
    """Vectors in [-1, 1]: a squashed Gaussian, and critics of observation and vector."""

    def __init__(
        self, actor: SquashedGaussianPolicy | SquashedSDEPolicy, critic: EnsembleMLP
    ) -> None:
        super().__init__()
        self.actor: SquashedGaussianPolicy | SquashedSDEPolicy = actor
        self.critic = critic

    def mode(self, obs: Tensor) -> Tensor:
        """tanh of the mean, `[B, act_dim]`."""
        return self.actor.mode(obs)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A sampled vector `[B, act_dim]`."""
        return self.actor.sample(obs, generator)[0]

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """One vector a row; under gSDE one matrix for all rows of an observation batch."""
        if isinstance(self.actor, SquashedSDEPolicy):
            return (self.actor.features, self.actor.act_dim)
        return (batch, self.actor.act_dim)

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """One vector a row, `[B, act_dim]`, and its log-density."""
        return self.actor.draw(obs, noise)

    def value(self, critic: EnsembleMLP, obs: Tensor, drawn: Tensor) -> Tensor:
        """min_i Q_i(s, a) of that vector."""
        return q_values(critic, obs, drawn, frozen=True).amin(0)

    def taken(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """Q_i(s, a) of vectors `[B, act_dim]`."""
        return q_values(critic, obs, actions)


class CategoricalSoftPolicy(SoftPolicy):
    """Choices: a categorical actor, and critics that give the value of each choice.

    Expectations are sums over all choices, so that nothing is drawn (Christodoulou 2019,
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
        """The most likely choice `[B]`."""
        return self.actor.mode(obs)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A sampled choice `[B]`."""
        return self.actor.sample(obs, generator)

    def noise_shape(self, batch: int) -> tuple[int, ...]:
        """None is drawn."""
        return (0,)

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """The probability of each choice, `[B, n_actions]`, and sum_a pi(a|s) log pi(a|s)."""
        log_p = torch.log_softmax(learning(self.actor.net, obs), -1)
        p = log_p.exp()
        return p, (p * log_p).sum(-1)

    def value(self, critic: EnsembleMLP, obs: Tensor, drawn: Tensor) -> Tensor:
        """sum_a pi(a|s) min_i Q_i(s, a)."""
        with torch.no_grad():  # the gradient is the probabilities'
            lowest: Tensor = critic(obs).amin(0)
        return (drawn * lowest).sum(-1)

    def taken(self, critic: EnsembleMLP, obs: Tensor, actions: Tensor) -> Tensor:
        """Q_i(s, a) of choices `[B]`."""
        values: Tensor = critic(obs)
        index = actions.expand(len(values), -1).unsqueeze(-1)
        return values.gather(-1, index).squeeze(-1)
