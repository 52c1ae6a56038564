"""Policies that keep to masks of allowed actions (Huang and Ontanon 2020, arXiv:2006.14171).

Rows `[..., obs_dim + n_actions]` have the mask behind the observation (`rlox.envs.masks`). Networks see the
observation alone. Before a softmax or a maximum, the numbers of actions that are not allowed become `NEVER`,
far below any other: their probability is exactly 0, and so is every gradient through them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.networks import Traced
from rlox.policies.discrete import DiscretePolicy
from rlox.policies.heads import NEVER
from rlox.policies.q import EpsilonGreedy, QPolicy

__all__ = ["MaskedDiscretePolicy", "MaskedEpsilonGreedy", "MaskedQPolicy", "allowed_only"]

Net = Callable[[Tensor], Tensor]


def allowed_only(values: Tensor, masks: Tensor) -> Tensor:
    """`values` `[..., n]` where `masks` are not 0, `NEVER` elsewhere; new memory.

    Finite, unlike -inf, so that 0 times it is 0: in an entropy, and in a target of discount 0.
    """
    return values.masked_fill(masks == 0, NEVER)


def over_rows(net: Net, n_actions: int) -> Net:
    """`net` of observations as a function of rows with a mask behind them, `[..., n_actions]`."""
    return lambda rows: allowed_only(net(rows[..., :-n_actions]), rows[..., -n_actions:])


class MaskedDiscretePolicy(DiscretePolicy):
    """A `DiscretePolicy` for rows `[B, obs_dim + n_actions]`, which have the mask behind the observation."""

    def logits(self, obs: Tensor) -> Tensor:
        """The logit of each choice `[B, n_actions]`; `NEVER` of one that is not allowed."""
        return over_rows(self.actor, self.n_actions)(obs)

    def fast_logits(self) -> Net:
        """`logits` for many small calls without gradients."""
        return over_rows(super().fast_logits(), self.n_actions)

    def get_value(self, obs: Tensor) -> Tensor:
        """V of the observations alone, `[B]`."""
        return super().get_value(obs[..., : -self.n_actions])


class MaskedQPolicy(QPolicy):
    """A `QPolicy` for rows `[B, obs_dim + n_actions]`, which have the mask behind the observation."""

    def said(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """What the network says of each choice, allowed or not."""
        return super().said(obs[..., : -self.n_actions], noise)

    def trace(self, obs: Tensor, noise: Tensor | None = None) -> Traced:
        """The same, flat, and the way back."""
        return super().trace(obs[..., : -self.n_actions], noise)

    def worth(self, said: Tensor, obs: Tensor) -> Tensor:
        """Q-values `[..., n_actions]`; `NEVER` of choices that are not allowed."""
        return allowed_only(super().worth(said, obs), obs[..., -self.n_actions :])

    def fast_values(self) -> Net:
        """The Q-values for many small calls without gradients."""
        net = super().fast_values()
        return net if net is self else over_rows(net, self.n_actions)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The best choice `[B]`, or with probability `epsilon` any that is allowed; with noise the best."""
        if self.noise_size:
            return super().sample(obs, generator)
        best, masks = self.mode(obs), obs[..., -self.n_actions :]
        u = torch.rand((2, *best.shape), generator=generator, device=best.device)
        nth = (u[1] * masks.sum(-1)).long()
        other = (masks.cumsum(-1) > nth.unsqueeze(-1)).long().argmax(-1)
        return torch.where(u[0] < self.epsilon, other, best)


class MaskedEpsilonGreedy(EpsilonGreedy):
    """Explores with a `MaskedQPolicy`: the best choice, or with probability epsilon any that is allowed."""

    def random(self, step: int, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Any choice that is allowed, each as likely as the others, `[N]`."""
        masks = obs[:, -self._n_actions :] != 0
        nth = (self._draws[step][1] * masks.sum(-1)).astype(np.int64)
        choices: NDArray[np.int64] = (masks.cumsum(-1) > nth[:, None]).argmax(-1)
        return choices
