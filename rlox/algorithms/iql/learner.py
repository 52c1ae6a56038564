"""Implicit Q-learning's update in torch."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.iql.common import METRIC_NAMES, IQLLearnerMixin
from rlox.configs import IQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.losses import critics_loss, expectile_loss, td_target
from rlox.networks import inference_function, init_weights
from rlox.networks.critics import q_values
from rlox.optim import Adam, TargetNetwork
from rlox.policies.implicit import IQLPolicy
from rlox.training.components import BuildContext
from rlox.training.learner import ActorCriticLearner, cast_obs, learn_each, require_finite_parameters
from rlox.training.loop import Stateful
from rlox.types import Clock, Transitions, Update, update_label

__all__ = ["IQLLearner", "build_policy", "build_torch"]


class IQLLearner(IQLLearnerMixin, ActorCriticLearner[IQLPolicy]):
    """Updates an actor, critics with a target, and a state value network from batches of transitions.

    It only evaluates actions of the dataset.
    """

    def __init__(self, policy: IQLPolicy, config: IQLConfig) -> None:
        self.config = config
        lr = config.initial("learning_rate")
        self.actor_optimizer = Adam(policy.actor, lr, eps=1e-8)
        self.critic_optimizer = Adam(policy.critic, lr, eps=1e-8)
        self.value_optimizer = Adam(policy.value, lr, eps=1e-8)
        self.target = TargetNetwork(copy.deepcopy(policy.critic), self.critic_optimizer.flat)
        parts: dict[str, Stateful] = {"actor": self.actor_optimizer, "critic": self.critic_optimizer}
        parts |= {"value": self.value_optimizer, "target": self.target}
        super().__init__(policy, parts, [self.target])

    @torch.enable_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update value network, actor, critics and target once per batch."""
        self._apply_schedules(clock)
        batch, label = batch.to(self.critic_optimizer.vector.device), update_label(batch, clock)
        update = learn_each(batch, lambda i: self._step(batch, i), METRIC_NAMES, label)
        for optimizer in (self.actor_optimizer, self.critic_optimizer, self.value_optimizer):
            require_finite_parameters(self.policy, optimizer.vector, label)
        return Update({**update.metrics, **self._own_metrics()}, update.count, update.samples)

    def _step(self, batch: Transitions, i: int) -> tuple[Tensor, Tensor]:
        """Update as in algorithm 1; return the metrics `METRIC_NAMES` and absolute TD errors `[B]`."""
        config, like = self.config, self.critic_optimizer.vector
        obs, next_obs = (cast_obs(rows[i], like) for rows in (batch.obs, batch.next_obs))
        actions = batch.actions[i].to(like)
        with torch.no_grad():
            min_q = q_values(self.target.module, obs, actions).amin(0)

        # eq. 5: V moves towards the expectile tau of min_i Qbar_i
        v = self.policy.value(obs).squeeze(-1)
        value_loss = expectile_loss(v, min_q, config.expectile)
        self.value_optimizer.minimize(value_loss, config.max_grad_norm)

        # eq. 7: the actor imitates the dataset's actions with weights w = exp(beta A), up to a limit
        with torch.no_grad():
            values = inference_function(self.policy.value)(torch.cat([obs, next_obs])).squeeze(-1)
            new_v, next_v = values.chunk(2)
            weight = (config.temperature * (min_q - new_v)).exp().clamp(max=config.max_weight)
        actor_loss = -(weight * self.policy.actor.log_prob(obs, actions)).mean()
        self.actor_optimizer.minimize(actor_loss, config.max_grad_norm)

        # eq. 6: the critics move towards R + gamma^m V(s')
        target_q = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), next_v)
        q = q_values(self.policy.critic, obs, actions)
        critic_loss = critics_loss(q, target_q)
        grad_norm = self.critic_optimizer.minimize(critic_loss, config.max_grad_norm)
        self.target.polyak_update(config.tau)

        losses = (critic_loss, value_loss, actor_loss)
        row = torch.stack([*losses, q.mean(), v.mean(), weight.mean(), grad_norm])
        return row, (q - target_q).abs().mean(0)


def build_torch(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[IQLPolicy, IQLLearner]:
    """Build the policy and its learner."""
    algo = cast(IQLConfig, config.algo)
    policy = init_weights(build_policy(algo, encoder_spec.features, actions.size), config.seed)
    policy.actor.net = encoder_spec.wrap_network(policy.actor.net)
    policy.critic = encoder_spec.wrap_ensemble(policy.critic)
    policy.value = encoder_spec.wrap_network(policy.value)
    policy = policy.to(context.device)
    return policy, IQLLearner(policy, algo)


def build_policy(algo: IQLConfig, features: int, act_dim: int) -> IQLPolicy:
    """Build the configured actor, critics and value network, which take features."""
    return IQLPolicy(features, act_dim, algo.n_critics, *algo.hidden_widths, algo.activation)
