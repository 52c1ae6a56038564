"""Policies that respect masks of allowed actions (Huang and Ontanon 2020, arXiv:2006.14171).

Rows `[..., obs_dim + n_actions]` have the mask after the observation (`rlox.envs.masks`). Networks see only
the observation. Before a softmax or a maximum, the values of actions that are not allowed become
`MASKED_LOGIT`, far below any other: their probability is exactly 0, and so is every gradient through them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rlox.policies.discrete import DiscretePolicy
from rlox.policies.heads import MASKED_LOGIT
from rlox.policies.q_policy import EpsilonGreedy, QPolicy

__all__ = ["MaskedDiscretePolicy", "MaskedEpsilonGreedy", "MaskedQPolicy", "mask_values"]

NetFunction = Callable[[Tensor], Tensor]


def mask_values(values: Tensor, masks: Tensor) -> Tensor:
    """Return `values` `[..., n]` where `masks` are not 0, else `MASKED_LOGIT`, in new memory.

    Entropies, and targets with discount 0, multiply it by 0: the product is 0, whereas that of -inf is NaN.
    """
    return values.masked_fill(masks == 0, MASKED_LOGIT)


def with_mask_rows(net: NetFunction, n_actions: int) -> NetFunction:
    """Return a function of rows that end with a mask; it masks the results of `net`, `[..., n_actions]`."""
    return lambda rows: mask_values(net(rows[..., :-n_actions]), rows[..., -n_actions:])


class MaskedDiscretePolicy(DiscretePolicy):
    """A `DiscretePolicy` for rows `[B, obs_dim + n_actions]`, which have the mask after the observation."""

    def logits(self, obs: Tensor) -> Tensor:
        """Return the logit of each action, `[B, n_actions]`; `MASKED_LOGIT` if it is not allowed."""
        return with_mask_rows(self.actor, self.n_actions)(obs)

    def inference_logits(self) -> NetFunction:
        """Return `logits` as a function for many small calls without gradients."""
        return with_mask_rows(super().inference_logits(), self.n_actions)

    def get_value(self, obs: Tensor) -> Tensor:
        """Return V of the observations without masks, `[B]`."""
        return super().get_value(obs[..., : -self.n_actions])


class MaskedQPolicy(QPolicy):
    """A `QPolicy` for rows `[B, obs_dim + n_actions]`, which have the mask after the observation."""

    def outputs(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Return the network's outputs for each action, allowed or not."""
        return super().outputs(obs[..., : -self.n_actions], noise)

    def q_values(self, outputs: Tensor, obs: Tensor) -> Tensor:
        """Return the Q-values `[..., n_actions]`; `MASKED_LOGIT` for actions that are not allowed."""
        return mask_values(super().q_values(outputs, obs), obs[..., -self.n_actions :])

    def inference_values(self) -> NetFunction:
        """Return a function for many small calls; it computes the Q-values without gradients."""
        net = super().inference_values()
        return net if net is self else with_mask_rows(net, self.n_actions)

    def random_actions(self, obs: Tensor, u: Tensor) -> Tensor:
        """Return the allowed action `[B]` that each uniform number of `u` `[B]`, from 0 to 1, chooses."""
        masks = obs[..., -self.n_actions :]
        rank = (u * masks.sum(-1)).long()
        return (masks.cumsum(-1) > rank.unsqueeze(-1)).long().argmax(-1)


class MaskedEpsilonGreedy(EpsilonGreedy):
    """Explores with a `MaskedQPolicy`: the best action, or with probability epsilon a random allowed one."""

    def random_actions(self, step: int, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return uniformly random allowed actions, `[N]`."""
        masks = obs[:, -self._n_actions :] != 0
        rank = (self._draws[step][1] * masks.sum(-1)).astype(np.int64)
        choices: NDArray[np.int64] = (masks.cumsum(-1) > rank[:, None]).argmax(-1)
        return choices
