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
from rlox.losses import (
    critics_gradient,
    critics_loss,
    expectile_gradient,
    expectile_loss,
    td_target,
)
from rlox.networks import ActionValues, inference_function, init_weights, trace
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

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update value network, actor, critics and target once per batch."""
        self._apply_schedules(clock)
        batch, label = batch.to(self.critic_optimizer.vector.device), update_label(batch, clock)
        update = learn_each(batch, lambda i: self._step(batch, i), METRIC_NAMES, label)
        for optimizer in (self.actor_optimizer, self.critic_optimizer, self.value_optimizer):
            require_finite_parameters(self.policy, optimizer.vector, label)
        return self._add_metrics(Update(update.metrics, update.count, update.samples))

    def _step(self, batch: Transitions, i: int) -> tuple[Tensor, Tensor]:
        """Update as in algorithm 1; return the metrics `METRIC_NAMES` and absolute TD errors `[B]`."""
        like = self.critic_optimizer.vector
        obs, next_obs = (cast_obs(rows[i], like) for rows in (batch.obs, batch.next_obs))
        actions = batch.actions[i].to(like)
        min_q = ActionValues(self.target.module, obs, actions).out.amin(0)
        loss_value, v_mean = self._improve_value(obs, min_q)
        both_values = inference_function(self.policy.value)(torch.cat([obs, next_obs])).squeeze(-1)
        values_now, next_values = both_values.chunk(2)
        loss_actor, weight = self._improve_actor(obs, actions, min_q - values_now)
        target_q = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), next_values)
        values = ActionValues(self.policy.critic, obs, actions)
        values.learn(critics_gradient(values.out, target_q))
        norm = self.critic_optimizer.clip(self.config.max_grad_norm)
        self.critic_optimizer.step()
        self.target.polyak_update(self.config.tau)
        losses = (critics_loss(values.out, target_q), loss_value, loss_actor)
        row = torch.stack([*losses, values.out.mean(), v_mean, weight, norm])
        return row, (values.out - target_q).abs().mean(0)

    def _improve_value(self, obs: Tensor, min_q: Tensor) -> tuple[Tensor, Tensor]:
        """Step V towards the expectile of `min_q`, eq. 5; return loss and mean of V before the step."""
        value, tau = trace(self.policy.value, obs), self.config.expectile
        v = value.out.squeeze(-1)
        value.learn(expectile_gradient(v, min_q, tau).unsqueeze(-1))
        self.value_optimizer.clip(self.config.max_grad_norm)
        self.value_optimizer.step()
        return expectile_loss(v, min_q, tau), v.mean()

    def _improve_actor(self, obs: Tensor, actions: Tensor, advantage: Tensor) -> tuple[Tensor, Tensor]:
        """Step on -E[w log pi(a|s)], w = exp(beta A) clamped, eq. 7; return the loss and the mean weight."""
        config = self.config
        weight = (config.temperature * advantage).exp().clamp(max=config.max_weight)
        log_prob, learn = self.policy.actor.trace(obs, actions)
        learn(weight / -len(weight))
        self.actor_optimizer.clip(config.max_grad_norm)
        self.actor_optimizer.step()
        return -(weight * log_prob).mean(), weight.mean()


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
