"""CQL(H)'s update of choices in torch: double Q-learning's, with values held down where there are no data."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.torch_cql import weight_of
from rlox.configs import CQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.losses import critics_loss, td_target
from rlox.networks import begun
from rlox.optim import Adam, TargetNetwork
from rlox.policies.conservative import LowestQPolicy
from rlox.training.finite import require_finite_parameters
from rlox.training.learned import Stateful, where
from rlox.training.learner import ActorCriticLearner, learn_each, seen
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

__all__ = ["CQLChoicesLearner", "composed"]

NAMES = ("loss/critic", "loss/conservative", "value/q_mean", "train/grad_norm", "cql/alpha")


class CQLChoicesLearner(ActorCriticLearner[LowestQPolicy]):
    """Critics of choices, their target, the penalty's weight, and what batches of transitions do to them."""

    def __init__(self, policy: LowestQPolicy, config: CQLConfig) -> None:
        self.config = config
        self.critic = Adam(policy.critic, config.initial("learning_rate"), eps=1e-8)
        self.target = TargetNetwork(copy.deepcopy(policy.critic), self.critic.flat)
        self.weight = weight_of(config, self.critic.vector)
        parts: dict[str, Stateful] = {"critic": self.critic, "target": self.target}
        super().__init__(policy, {**parts, "weight": self.weight}, [self.target])

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of critics and target for each batch."""
        self.critic.lr = self.config.at("learning_rate", clock.remaining)
        batch, at = batch.to(self.critic.vector.device), where(batch, clock)
        number = clock.updates
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), NAMES, at)
        require_finite_parameters(self.policy, self.critic.vector, at)
        return replace(update, metrics={**update.metrics, "train/learning_rate": self.critic.lr})

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """One step of sum_i E[(Q_i - y)^2 + w (log sum_a exp Q_i(s, a) - Q_i(s, a of the dataset))]."""
        config, like = self.config, self.critic.vector
        goal = self._goal(batch, i)
        values = self.policy.critic.trace(seen(batch.obs[i], like))
        said, weight, rows = values.out, self.weight.alpha, len(goal)
        taken = batch.actions[i].reshape(1, -1, 1).long().expand(len(said), -1, -1)
        q = said.gather(-1, taken).squeeze(-1)
        penalty = (said.logsumexp(-1) - q).mean()
        slope = weight * said.softmax(-1)
        slope.scatter_add_(-1, taken, (2.0 * (q - goal) - weight).unsqueeze(-1))
        values.learn(slope.div_(rows))
        norm = self.critic.clip(config.max_grad_norm)
        self.critic.step()
        self.weight.learn(penalty, self.critic.lr)
        if (update + 1) % config.target_update_interval == 0:
            self.target.follow(config.tau)
        loss = critics_loss(q, goal)
        return torch.stack([loss, penalty, q.mean(), norm, weight]), (q - goal).abs().mean(0)

    def _goal(self, batch: Transitions, i: int) -> Tensor:
        """R + gamma min_i Qbar_i(s', argmax_a min_i Q_i(s', a)) (van Hasselt et al. 2016, of several)."""
        like = self.critic.vector
        next_obs = seen(batch.next_obs[i], like)
        best = self.policy.mode(next_obs).unsqueeze(-1)
        there: Tensor = self.target.module(next_obs).amin(0).gather(-1, best).squeeze(-1)
        return td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), there)


def composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec
) -> tuple[LowestQPolicy, CQLChoicesLearner]:
    """The policy and what it learns by."""
    algo = cast(CQLConfig, config.algo)
    sizes = (encoding.features, actions.size, algo.n_critics, algo.net_arch, algo.activation)
    policy = begun(LowestQPolicy(*sizes), config.seed)
    policy.critic = encoding.ensemble(policy.critic)
    policy = policy.to(tools.device)
    return policy, CQLChoicesLearner(policy, algo)
