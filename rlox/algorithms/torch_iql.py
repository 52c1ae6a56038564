"""Implicit Q-learning's update in torch."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.iql_schedule import NAMES, Scheduled
from rlox.configs import IQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.losses import (
    critics_gradient,
    critics_loss,
    expectile_gradient,
    expectile_loss,
    td_target,
)
from rlox.networks import ActionValues, begun, inference, trace
from rlox.optim import Adam, TargetNetwork
from rlox.policies.implicit import ImplicitPolicy
from rlox.training.finite import require_finite_parameters
from rlox.training.learned import Stateful, where
from rlox.training.learner import ActorCriticLearner, learn_each, seen
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

__all__ = ["IQLLearner", "composed", "described"]


class IQLLearner(Scheduled, ActorCriticLearner[ImplicitPolicy]):
    """An actor, critics with a target, a state value, and what batches of transitions do to them.

    No value is asked for of an action that is not the dataset's.
    """

    def __init__(self, policy: ImplicitPolicy, config: IQLConfig) -> None:
        self.config = config
        lr = config.initial("learning_rate")
        self.actor = Adam(policy.actor, lr, eps=1e-8)
        self.critic = Adam(policy.critic, lr, eps=1e-8)
        self.value = Adam(policy.value, lr, eps=1e-8)
        self.target = TargetNetwork(copy.deepcopy(policy.critic), self.critic.flat)
        parts: dict[str, Stateful] = {"actor": self.actor, "critic": self.critic}
        parts |= {"value": self.value, "target": self.target}
        super().__init__(policy, parts, [self.target])

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of value, actor, critics and target for each batch."""
        self._schedule(clock)
        batch, at = batch.to(self.critic.vector.device), where(batch, clock)
        update = learn_each(batch, lambda i: self._step(batch, i), NAMES, at)
        for optimizer in (self.actor, self.critic, self.value):
            require_finite_parameters(self.policy, optimizer.vector, at)
        return self._told(Update(update.metrics, update.count, update.samples))

    def _step(self, batch: Transitions, i: int) -> tuple[Tensor, Tensor]:
        """Value, actor, critics, target, as algorithm 1 has them; `NAMES` and the errors `[B]`."""
        like = self.critic.vector
        obs, next_obs = (seen(rows[i], like) for rows in (batch.obs, batch.next_obs))
        taken = batch.actions[i].to(like)
        lowest = ActionValues(self.target.module, obs, taken).out.amin(0)
        loss_value, v_mean = self._improve_value(obs, lowest)
        after = inference(self.policy.value)(torch.cat([obs, next_obs])).squeeze(-1)
        here, there = after.chunk(2)
        loss_actor, weight = self._improve_actor(obs, taken, lowest - here)
        goal = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), there)
        values = ActionValues(self.policy.critic, obs, taken)
        values.learn(critics_gradient(values.out, goal))
        norm = self.critic.clip(self.config.max_grad_norm)
        self.critic.step()
        self.target.follow(self.config.tau)
        losses = (critics_loss(values.out, goal), loss_value, loss_actor)
        row = torch.stack([*losses, values.out.mean(), v_mean, weight, norm])
        return row, (values.out - goal).abs().mean(0)

    def _improve_value(self, obs: Tensor, lowest: Tensor) -> tuple[Tensor, Tensor]:
        """One step of V towards the expectile of the lowest Qbar, eq. 5; its loss and mean before that."""
        value, tau = trace(self.policy.value, obs), self.config.expectile
        v = value.out.squeeze(-1)
        value.learn(expectile_gradient(v, lowest, tau).unsqueeze(-1))
        self.value.clip(self.config.max_grad_norm)
        self.value.step()
        return expectile_loss(v, lowest, tau), v.mean()

    def _improve_actor(
        self, obs: Tensor, taken: Tensor, advantage: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One step of -E[w log pi(a|s)], w = exp(beta A), eq. 7; the loss and the mean weight."""
        config = self.config
        weight = (config.temperature * advantage).exp().clamp(max=config.max_weight)
        log_prob, learn = self.policy.actor.trace(obs, taken)
        learn(weight / -len(weight))
        self.actor.clip(config.max_grad_norm)
        self.actor.step()
        return -(weight * log_prob).mean(), weight.mean()


def composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec
) -> tuple[ImplicitPolicy, IQLLearner]:
    """The policy and what it learns by."""
    algo = cast(IQLConfig, config.algo)
    policy = begun(described(algo, encoding.features, actions.size), config.seed)
    policy.actor.net = encoding.before(policy.actor.net)
    policy.critic = encoding.ensemble(policy.critic)
    policy.value = encoding.before(policy.value)
    policy = policy.to(tools.device)
    return policy, IQLLearner(policy, algo)


def described(algo: IQLConfig, features: int, size: int) -> ImplicitPolicy:
    """The actor, the critics and the value of features that are configured."""
    return ImplicitPolicy(features, size, algo.n_critics, *algo.widths, algo.activation)
