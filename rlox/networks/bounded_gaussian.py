"""Gaussians with bounded mean, as in implicit Q-learning (Kostrikov et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rlox.networks.mlp import inference_function, mlp, trace
from rlox.networks.normal_density import log_normal
from rlox.networks.traced import gradient_of

__all__ = ["BoundedGaussianPolicy"]

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0  # as in the authors' code


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
        return self.log_std.clamp(LOG_STD_MIN, LOG_STD_MAX).exp()

    def trace(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Callable[[Tensor], None]]:
        """Return log pi(a|s) `[B]` of `actions` `[B, act_dim]`, and the backward function to the parameters.

        With z = (a - mean) / std: d log pi = z / std d mean + (z^2 - 1) d log std, the latter only where
        log std is not clipped.
        """
        net = trace(self.net, obs)
        mean, log_std = net.out.tanh(), self.log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        deviation = actions - mean

        def learn(slope: Tensor) -> None:
            row_slope = slope.unsqueeze(-1)
            precision = (-2.0 * log_std).exp()
            net.learn(row_slope * deviation * precision * (1.0 - mean.square()))
            is_unclipped = (self.log_std >= LOG_STD_MIN) & (self.log_std <= LOG_STD_MAX)
            log_std_gradient = (row_slope * (deviation.square() * precision - 1.0)).sum(0)
            gradient_of(self.log_std).copy_(log_std_gradient * is_unclipped)

        return log_normal(actions, mean, log_std).sum(-1), learn
