"""Gaussian policies for `Box` actions: state-independent noise, and gSDE.

Actions are neither squashed nor clipped here. The environment applies the bounds, so that the stored
log-probability belongs to the action that the policy chose.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rlox.networks import inference_function, resolve_widths
from rlox.networks.gaussians import LOG_SQRT_2PI, log_normal
from rlox.policies.base import Sampler
from rlox.policies.heads import normal_noise, sample_vectors, score_vectors
from rlox.policies.mlp import MLPActorCritic

__all__ = ["ContinuousPolicy", "SDEPolicy"]


class GaussianPolicy(MLPActorCritic):
    """The base class of Gaussian policies: the actor computes the mean, which is also the mode."""

    def mode(self, obs: Tensor) -> Tensor:
        """Return the mean `[B, act_dim]`."""
        return inference_function(self.actor)(obs)


class ContinuousPolicy(GaussianPolicy):
    """Separate actor and critic MLPs; the actor computes the mean, `log_std` `[act_dim]` is learned.

    Parameters are those of `DiscretePolicy`, with `act_dim` for the action's length and
    `log_std_init` for the initial log standard deviation.
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        hidden: int = 64,
        net_arch: Sequence[int] | None = None,
        activation: str = "tanh",
        ortho_init: bool = True,
        log_std_init: float = 0.0,
        critic_net_arch: Sequence[int] | None = None,
    ) -> None:
        widths = resolve_widths(hidden, net_arch, obs_dim=obs_dim, act_dim=act_dim)
        super().__init__(obs_dim, act_dim, widths, critic_net_arch, activation, ortho_init)
        self.act_dim = act_dim
        self.log_std = nn.Parameter(torch.full((act_dim,), float(log_std_init)))

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Return a sampler that adds scaled normal noise to the mean."""
        noise = normal_noise(n_steps, n_envs, self.log_std.detach().exp(), generator)
        actor = inference_function(self.actor)
        return lambda obs, t: actor(obs).add_(noise[t])

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probability, entropy and value, each `[B]`."""
        scores = score_vectors(self.actor(obs), self.log_std, actions)
        return *scores, self.get_value(obs)

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample an action `[B, act_dim]`; return it and its log-probability `[B]`."""
        mean = self.actor(obs)
        action = sample_vectors(mean, self.log_std, generator).detach()
        return action, log_normal(action, mean, self.log_std).sum(-1)


class SDEPolicy(GaussianPolicy):
    """Generalised state-dependent exploration, gSDE (Raffin et al. 2021, arXiv:2005.05719).

    The noise is a linear function of the actor's last hidden layer, theta(s) @ E with
    E_ij ~ N(0, std_ij^2). E is kept for `sample_freq` steps (-1: the whole rollout), so that
    exploration is smooth. The marginal distribution of an action is Normal(mean, sqrt(theta^2 @ std^2)). No
    gradient flows into theta through the standard deviation, as in Stable-Baselines3.
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        net_arch: Sequence[int] = (64, 64),
        activation: str = "tanh",
        ortho_init: bool = True,
        log_std_init: float = 0.0,
        sample_freq: int = -1,
        critic_net_arch: Sequence[int] | None = None,
    ) -> None:
        super().__init__(obs_dim, act_dim, net_arch, critic_net_arch, activation, ortho_init)
        self.act_dim = act_dim
        self.sample_freq = sample_freq
        self.features = tuple(net_arch)[-1]
        self.log_std = nn.Parameter(torch.full((self.features, act_dim), float(log_std_init)))

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Sampler:
        """Return a sampler with a noise matrix `[features, act_dim]` per environment.

        The matrices are drawn again every `sample_freq` steps.
        """
        std = self.log_std.detach().exp()
        interval = self.sample_freq if self.sample_freq > 0 else n_steps
        shape = (n_envs, self.features, self.act_dim)
        matrix = std.new_zeros(shape)

        def sample(obs: Tensor, t: int) -> Tensor:
            if t % interval == 0:
                torch.mul(torch.randn(shape, generator=generator, device=std.device), std, out=matrix)
            mean, features = self._mean_and_features(obs)
            return mean + torch.bmm(features.unsqueeze(1), matrix).squeeze(1)

        return sample

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probability, entropy and value, each `[B]`."""
        mean, features = self._mean_and_features(obs)
        log_std = self._log_std(features)
        log_prob = log_normal(actions, mean, log_std).sum(-1)
        entropy = (log_std + 0.5 + LOG_SQRT_2PI).sum(-1)
        return log_prob, entropy, self.get_value(obs)

    def get_action_and_logprob(
        self, obs: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Sample an action with a new noise matrix for each row; return it and its log-probability."""
        mean, features = self._mean_and_features(obs)
        log_std = self._log_std(features)
        action = sample_vectors(mean, log_std, generator).detach()
        return action, log_normal(action, mean, log_std).sum(-1)

    def _mean_and_features(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        features: Tensor = self.actor[:-1](obs)
        return self.actor[-1](features), features

    def _log_std(self, features: Tensor) -> Tensor:
        variance = features.detach().square() @ self.log_std.exp().square()
        return 0.5 * (variance + 1e-6).log()
