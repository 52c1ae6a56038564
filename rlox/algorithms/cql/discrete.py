"""CQL(H) for discrete actions in torch: its policy, and double Q-learning with a conservative penalty."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.cql.learner import make_penalty_weight
from rlox.configs import CQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.losses import critics_loss, td_target
from rlox.networks import EnsembleMLP, init_weights
from rlox.optim import Adam, TargetNetwork
from rlox.policies.base import Policy
from rlox.training.components import BuildContext
from rlox.training.learner import ActorCriticLearner, cast_obs, learn_each, require_finite_parameters
from rlox.training.loop import Stateful
from rlox.types import Clock, Transitions, Update, update_label

__all__ = ["DiscreteCQLLearner", "MinQPolicy", "build_torch"]


class MinQPolicy(Policy):
    """Critics with a value for each action; the action with the highest minimum over critics is taken.

    Parameters
    ----------
    obs_dim : length of the observation vector
    n_actions : number of discrete actions
    members : number of critics
    net_arch : hidden widths
    activation : `tanh`, `relu`, `elu` or `silu`
    """

    def __init__(
        self, obs_dim: int, n_actions: int, members: int, net_arch: Sequence[int], activation: str
    ) -> None:
        super().__init__()
        self.critic = EnsembleMLP(members, (obs_dim, *net_arch, n_actions), activation)

    def forward(self, obs: Tensor) -> Tensor:
        """Return min_i Q_i(s, .), `[B, n_actions]`."""
        lowest: Tensor = self.critic(obs).amin(0)
        return lowest

    def mode(self, obs: Tensor) -> Tensor:
        """Return the best action `[B]`."""
        actions: Tensor = self(obs).argmax(-1)
        return actions

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return the same as `mode`; the policy is deterministic."""
        return self.mode(obs)


METRIC_NAMES = ("loss/critic", "loss/conservative", "value/q_mean", "train/grad_norm", "cql/alpha")


class DiscreteCQLLearner(ActorCriticLearner[MinQPolicy]):
    """Updates critics of discrete actions, their target and the penalty's weight from transitions."""

    def __init__(self, policy: MinQPolicy, config: CQLConfig) -> None:
        self.config = config
        self.critic_optimizer = Adam(policy.critic, config.initial("learning_rate"), eps=1e-8)
        self.target = TargetNetwork(copy.deepcopy(policy.critic), self.critic_optimizer.flat)
        self.weight = make_penalty_weight(config, self.critic_optimizer.vector)
        parts: dict[str, Stateful] = {"critic": self.critic_optimizer, "target": self.target}
        super().__init__(policy, {**parts, "weight": self.weight}, [self.target])

    @torch.enable_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update critics and target once per batch."""
        self.critic_optimizer.lr = self.config.at("learning_rate", clock.remaining)
        batch, label = batch.to(self.critic_optimizer.vector.device), update_label(batch, clock)
        number = clock.updates
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), METRIC_NAMES, label)
        require_finite_parameters(self.policy, self.critic_optimizer.vector, label)
        return replace(update, metrics={**update.metrics, "train/learning_rate": self.critic_optimizer.lr})

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """Take one step on sum_i E[(Q_i - y)^2 + w (log sum_a exp Q_i(s, a) - Q_i(s, a of the dataset))]."""
        config, like = self.config, self.critic_optimizer.vector
        target_q, weight = self._target_q(batch, i), self.weight.alpha
        values = self.policy.critic(cast_obs(batch.obs[i], like))
        actions = batch.actions[i].reshape(1, -1, 1).long().expand(len(values), -1, -1)
        q = values.gather(-1, actions).squeeze(-1)
        td_loss = critics_loss(q, target_q)
        penalty = values.logsumexp(-1) - q
        grad_norm = self.critic_optimizer.minimize(
            td_loss + weight * penalty.mean(-1).sum(), config.max_grad_norm
        )
        mean_penalty = penalty.detach().mean()
        self.weight.learn(mean_penalty, self.critic_optimizer.lr)
        if (update + 1) % config.target_update_interval == 0:
            self.target.polyak_update(config.tau)
        row = torch.stack([td_loss, mean_penalty, q.mean(), grad_norm, weight])
        return row, (q - target_q).abs().mean(0)

    @torch.no_grad()
    def _target_q(self, batch: Transitions, i: int) -> Tensor:
        """Return R + gamma min_i Qbar_i(s', argmax_a min_i Q_i(s', a)), where Qbar are target critics.

        It is double Q-learning (van Hasselt et al. 2016) with several critics.
        """
        like = self.critic_optimizer.vector
        next_obs = cast_obs(batch.next_obs[i], like)
        greedy = self.policy.mode(next_obs).unsqueeze(-1)
        next_values: Tensor = self.target.module(next_obs).amin(0).gather(-1, greedy).squeeze(-1)
        return td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), next_values)


def build_torch(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[MinQPolicy, DiscreteCQLLearner]:
    """Build the policy and its learner."""
    algo = cast(CQLConfig, config.algo)
    sizes = (encoder_spec.features, actions.size, algo.n_critics, algo.net_arch, algo.activation)
    policy = init_weights(MinQPolicy(*sizes), config.seed)
    policy.critic = encoder_spec.wrap_ensemble(policy.critic)
    policy = policy.to(context.device)
    return policy, DiscreteCQLLearner(policy, algo)
