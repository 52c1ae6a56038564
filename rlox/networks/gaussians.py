"""Gaussians of continuous actions: squashed into [-1, 1] by tanh, or with a bounded mean.

Squashed: Haarnoja et al. 2018 (arXiv:1812.05905), appendix C. Bounded mean: implicit Q-learning (Kostrikov et
al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.networks.mlp import inference_function, mlp, resolve_widths

__all__ = [
    "LOG_SQRT_2PI",
    "BoundedGaussianPolicy",
    "SquashedGaussianPolicy",
    "SquashedSDEPolicy",
    "log_normal",
    "squashed_log_prob",
]

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def log_normal(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return the log density of Normal(mean, exp(log_std)) at x, elementwise."""
    z = (x - mean) * (-log_std).exp()
    return -0.5 * z.square() - log_std - LOG_SQRT_2PI


BOUNDED_LOG_STD = (-5.0, 2.0)  # as in the authors' code


class BoundedGaussianPolicy(nn.Module):
    """Actions from Normal(tanh(net(s)), std); each dimension has one standard deviation for all states.

    The density is that of the unbounded Gaussian; only its mean is in [-1, 1].

    Parameters
    ----------
    obs_dim : length of the observation vector
    act_dim : length of the action vector
    net_arch : hidden widths
    activation : `tanh`, `relu`, `elu` or `silu`
    """

    def __init__(self, obs_dim: int, act_dim: int, net_arch: Sequence[int], activation: str) -> None:
        super().__init__()
        self.net = mlp((obs_dim, *net_arch, act_dim), activation)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def mode(self, obs: Tensor) -> Tensor:
        """Return the mean, `[B, act_dim]`."""
        return inference_function(self.net)(obs).tanh()

    def std(self) -> Tensor:
        """Return the standard deviation of each dimension, `[act_dim]`."""
        return self.log_std.clamp(*BOUNDED_LOG_STD).exp()

    def log_prob(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Return log pi(a|s) `[B]` of `actions` `[B, act_dim]`."""
        mean, log_std = self.net(obs).tanh(), self.log_std.clamp(*BOUNDED_LOG_STD)
        return log_normal(actions, mean, log_std).sum(-1)


LOG_STD_MIN, LOG_STD_MAX = -20.0, 2.0  # as in Stable-Baselines3
SDE_MEAN_LIMIT = 2.0  # limit of the mean under gSDE, as in Stable-Baselines3


def squashed_log_prob(u: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Return log p(tanh u) = sum_i [log N(u_i; mean_i, std_i) - log(1 - tanh^2 u_i)], eq. 26; `[B]`.

    Arguments are `[B, n]`.
    """
    return (log_normal(u, mean, log_std) - _log_tanh_slope(u)).sum(-1)


def _log_tanh_slope(u: Tensor) -> Tensor:
    """Return log(1 - tanh^2 u) = 2 (log 2 - u - softplus(-2 u)), which is finite for any u."""
    return 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))


class SquashedGaussianPolicy(nn.Module):
    """Actions tanh(u) in [-1, 1], u ~ Normal(mean(s), std(s)) with independent dimensions.

    One MLP computes mean and log standard deviation, which is clipped to [-20, 2].

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
        self.act_dim = act_dim
        widths = resolve_widths(hidden, net_arch, obs_dim=obs_dim, act_dim=act_dim)
        self.net = mlp((obs_dim, *widths, 2 * act_dim), activation)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and log standard deviation of u, each `[B, act_dim]`."""
        mean, log_std = self.net(obs).chunk(2, -1)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the action for `noise`, both `[B, act_dim]`, with gradient, and its log-density."""
        mean, log_std = self(obs)
        u = mean + log_std.exp() * noise
        # from the noise itself: (u - mean) / std would be the noise with the rounding of u, divided by std
        log_density = -0.5 * noise.square() - log_std - LOG_SQRT_2PI
        return u.tanh(), (log_density - _log_tanh_slope(u)).sum(-1)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Sample an action `[..., act_dim]`, with gradient; return it and its log-density `[...]`."""
        like = next(self.net.parameters())  # not obs: rows with images are bytes
        shape = (*obs.shape[:-1], self.act_dim)
        noise = torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
        return self.draw(obs, noise)

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Return the action of `draw`, faster and without gradient."""
        mean, log_std = inference_function(self.net)(obs).chunk(2, -1)
        return log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp_().mul_(noise).add_(mean).tanh_()

    def mode(self, obs: Tensor) -> Tensor:
        """Return tanh of the mean, `[B, act_dim]`."""
        return inference_function(self.net)(obs).chunk(2, -1)[0].tanh()


class SquashedSDEPolicy(nn.Module):
    """Actions tanh(u) with state-dependent noise, gSDE (Raffin et al. 2021, arXiv:2005.05719).

    u = mean(s) + theta(s) @ E with the last hidden layer theta and E_ij ~ Normal(0, std_ij), so that u
    is Normal(mean, sqrt(theta^2 @ std^2)); the mean is clipped to [-2, 2]. Gradients flow through theta
    in the standard deviation too, as in Stable-Baselines3's SAC.
    """

    def __init__(
        self,
        obs_dim: int,
        act_dim: int,
        net_arch: Sequence[int] = (256, 256),
        activation: str = "relu",
        log_std_init: float = -3.0,
    ) -> None:
        super().__init__()
        self.act_dim, self.features = act_dim, tuple(net_arch)[-1]
        self.net = mlp((obs_dim, *net_arch, act_dim), activation)
        self.log_std = nn.Parameter(torch.full((self.features, act_dim), float(log_std_init)))

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of u `[B, act_dim]` and theta `[B, features]`."""
        theta: Tensor = self.net[:-1](obs)
        mean: Tensor = self.net[-1](theta)
        return mean.clamp(-SDE_MEAN_LIMIT, SDE_MEAN_LIMIT), theta

    def draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the action `[B, act_dim]`, with gradient, and its log-density `[B]`.

        `noise` is standard normal: `[features, act_dim]` for all rows, or `[B, features, act_dim]`.
        """
        mean, theta = self(obs)
        std = self.log_std.exp()
        u = mean + (theta.unsqueeze(-2) @ (noise * std)).squeeze(-2)
        log_std = 0.5 * (theta.square() @ std.square() + 1e-6).log()
        return u.tanh(), squashed_log_prob(u, mean, log_std)

    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Return only the action of `draw`."""
        mean, theta = self(obs)
        action: Tensor = mean + (theta.unsqueeze(-2) @ (noise * self.log_std.exp())).squeeze(-2)
        return action.tanh()

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Sample actions `[B, act_dim]`, a noise matrix for each row; return them and their log-density."""
        shape, like = (len(obs), self.features, self.act_dim), self.log_std
        noise = torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
        return self.draw(obs, noise)

    def mode(self, obs: Tensor) -> Tensor:
        """Return tanh of the mean, `[B, act_dim]`."""
        actions: Tensor = self(obs)[0].tanh()
        return actions
