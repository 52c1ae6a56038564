"""TD3's update in torch, and DDPG's."""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.off_policy import OffPolicy
from rlox.algorithms.td3_schedule import NAMES, Deterministic, Scheduled
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.losses import critics_gradient, critics_loss, td_target
from rlox.networks import ActionValues, begun, inference
from rlox.optim import Adam, TargetNetwork
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.exploration import NoisyExploration
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learned import Stateful, where
from rlox.training.learner import ActorCriticLearner, Noise, UpdateNoise, learn_each, seen
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

__all__ = ["TD3Learner", "composed", "described", "made"]


class TD3Learner(Scheduled, ActorCriticLearner[DeterministicPolicy]):
    """A deterministic actor and critics, each with a target, and what batches of transitions do to them.

    `noise` gives the standard normal numbers of an update.
    """

    def __init__(self, policy: DeterministicPolicy, config: Deterministic, noise: Noise) -> None:
        self.config, self.noise = config, noise
        lr = config.initial("learning_rate")
        self.actor = Adam(policy.actor, lr, eps=1e-8)
        self.critic = Adam(policy.critic, lr, eps=1e-8)
        self.target_actor = TargetNetwork(copy.deepcopy(policy.actor), self.actor.flat)
        self.target_critic = TargetNetwork(copy.deepcopy(policy.critic), self.critic.flat)
        self._actor_losses: list[Tensor] = []  # of the update under way
        parts: dict[str, Stateful] = {"actor": self.actor, "critic": self.critic}
        parts |= {"target_actor": self.target_actor, "target_critic": self.target_critic}
        super().__init__(policy, parts, [self.target_actor, self.target_critic])

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of the critics for each batch; of the actor and the targets every `policy_delay`."""
        self._schedule(clock)
        batch = batch.to(self.critic.vector.device)
        return self._told(self._learn(batch, clock.updates, where(batch, clock)))

    def _learn(self, batch: Transitions, number: int, at: str) -> Update:
        """All batches, the first of which is `number` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), NAMES, at)
        if self._actor_losses:
            table = torch.stack(self._actor_losses).unsqueeze(-1)
            require_finite(table, ("loss/actor",), at)
            self.actor_loss = float(table.mean())
            self._actor_losses.clear()
        for optimizer in (self.actor, self.critic):
            require_finite_parameters(self.policy, optimizer.vector, at)
        return update

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """The critics, and when it is their turn the actor and the targets."""
        config, like = self.config, self.critic.vector
        obs = seen(batch.obs[i], like)
        goal = self._goal(batch, i, update)
        taken = batch.actions[i].to(like)
        values = ActionValues(self.policy.critic, obs, taken)
        q, weights = values.out, None if batch.weights is None else batch.weights[i].to(like)
        values.learn(critics_gradient(q, goal, weights))
        norm = self.critic.clip(config.max_grad_norm)
        self.critic.step()
        if (update + 1) % config.delays.policy_delay == 0:
            self._actor_losses.append(self._improve_actor(obs, taken))
            self.target_actor.follow(config.tau)
            self.target_critic.follow(config.tau)
        loss = critics_loss(q, goal, weights)
        return torch.stack([loss, q.mean(), norm]), (q - goal).abs().mean(0)

    def _improve_actor(self, obs: Tensor, taken: Tensor) -> Tensor:
        """One step along the gradient of the first critic's values; their mean, negative.

        What was `taken` `[B, act_dim]` in `obs` is for algorithms that hold to it.
        """
        action, learn = self.policy.act(obs)
        first = ActionValues(self.policy.critic, obs, action, members=1)
        learn(first.back(torch.full_like(first.out, -1.0 / len(obs))))
        self.actor.clip(self.config.max_grad_norm)
        self.actor.step()
        return -first.out.mean()

    def _goal(self, batch: Transitions, i: int, update: int) -> Tensor:
        """R + gamma^m min_i Qbar_i(s', clip(mubar(s') + clip(noise))), eq. 14 and algorithm 1; `[B]`."""
        config, like = self.config, self.critic.vector
        next_obs = seen(batch.next_obs[i], like)
        action = self.target_actor.module(next_obs).tanh()
        _, deviation, limit = config.delays
        if deviation:
            noise = self.noise(update, tuple(action.shape), like).mul_(deviation)
            action = action.add_(noise.clamp_(-limit, limit)).clamp_(-1.0, 1.0)
        value = ActionValues(self.target_critic.module, next_obs, action).out.amin(0)
        return td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), value)


def composed(
    config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding, actions: UnitCodec
) -> OffPolicy:
    """What learns, explores and acts."""
    algo, size = cast(DeterministicConfig, config.algo), actions.size
    with tools.networks(config):
        policy = made(algo, config.seed, encoding, size).to(tools.device)
    forward, deviation = inference(policy.actor), algo.exploration_noise

    def explore(obs: Tensor, noise: Tensor) -> Tensor:
        return forward(obs).tanh_().add_(noise, alpha=deviation).clamp_(-1.0, 1.0)

    run = (size, env.n_envs, config.seed, tools.device)
    behaviour = NoisyExploration(explore, (size,), *run)
    learner = TD3Learner(policy, algo, UpdateNoise(tools.streams))
    return OffPolicy(policy, behaviour, learner, actions)


def made(algo: Deterministic, seed: int, encoding: Encoding, size: int) -> DeterministicPolicy:
    """The policy at the start of a run, behind encoders where there are images."""
    policy = begun(described(algo, encoding.features, size), seed)
    policy.actor = encoding.before(policy.actor)
    policy.critic = encoding.ensemble(policy.critic)
    return policy


def described(algo: Deterministic, features: int, size: int) -> DeterministicPolicy:
    """The actor and the critics of features that are configured."""
    return DeterministicPolicy(features, size, algo.n_critics, *algo.widths, algo.activation)
