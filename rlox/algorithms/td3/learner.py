"""The updates of TD3 and DDPG in torch."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents
from rlox.algorithms.td3.common import METRIC_NAMES, TD3LearnerMixin, TD3LikeConfig
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.losses import critics_loss, td_target
from rlox.networks import inference_function, init_weights
from rlox.networks.critics import q_values
from rlox.optim import Adam, TargetNetwork
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.exploration import NoisyExploration
from rlox.training.components import BuildContext
from rlox.training.learner import (
    ActorCriticLearner,
    NoiseFunction,
    UpdateNoise,
    cast_obs,
    learn_each,
    require_finite,
    require_finite_parameters,
)
from rlox.training.loop import Stateful
from rlox.types import Clock, Transitions, Update, update_label

__all__ = ["TD3Learner", "build_encoded_policy", "build_policy", "build_torch"]


class TD3Learner(TD3LearnerMixin, ActorCriticLearner[DeterministicPolicy]):
    """Updates a deterministic actor and critics, each with a target, from batches of transitions.

    `noise` returns the standard normal numbers of an update.
    """

    def __init__(self, policy: DeterministicPolicy, config: TD3LikeConfig, noise: NoiseFunction) -> None:
        self.config, self.noise = config, noise
        lr = config.initial("learning_rate")
        self.actor_optimizer = Adam(policy.actor, lr, eps=1e-8)
        self.critic_optimizer = Adam(policy.critic, lr, eps=1e-8)
        self.target_actor = TargetNetwork(copy.deepcopy(policy.actor), self.actor_optimizer.flat)
        self.target_critic = TargetNetwork(copy.deepcopy(policy.critic), self.critic_optimizer.flat)
        self._actor_losses: list[Tensor] = []  # of the present update
        parts: dict[str, Stateful] = {"actor": self.actor_optimizer, "critic": self.critic_optimizer}
        parts |= {"target_actor": self.target_actor, "target_critic": self.target_critic}
        super().__init__(policy, parts, [self.target_actor, self.target_critic])

    @torch.enable_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update the critics once per batch, the actor and the targets every `policy_delay` updates."""
        self._apply_schedules(clock)
        batch = batch.to(self.critic_optimizer.vector.device)
        update = self._learn(batch, clock.updates, update_label(batch, clock))
        return replace(update, metrics={**update.metrics, **self._own_metrics()})

    def _learn(self, batch: Transitions, first_update: int, label: str) -> Update:
        """Take one step for each batch; the first one is update number `first_update` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, first_update + i), METRIC_NAMES, label)
        if self._actor_losses:
            table = torch.stack(self._actor_losses).unsqueeze(-1)
            require_finite(table, ("loss/actor",), label)
            self.actor_loss = float(table.mean())
            self._actor_losses.clear()
        for optimizer in (self.actor_optimizer, self.critic_optimizer):
            require_finite_parameters(self.policy, optimizer.vector, label)
        return update

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """Update as in algorithm 1; return the metrics `METRIC_NAMES` and absolute TD errors `[B]`."""
        config, like = self.config, self.critic_optimizer.vector
        obs, actions = cast_obs(batch.obs[i], like), batch.actions[i].to(like)
        weights = None if batch.weights is None else batch.weights[i].to(like)

        target_q = self._target_q(batch, i, update)
        q = q_values(self.policy.critic, obs, actions)
        critic_loss = critics_loss(q, target_q, weights)
        grad_norm = self.critic_optimizer.minimize(critic_loss, config.max_grad_norm)

        if (update + 1) % config.td3_settings.policy_delay == 0:
            actor_loss = self._actor_loss(obs, actions)
            self.actor_optimizer.minimize(actor_loss, config.max_grad_norm)
            self._actor_losses.append(actor_loss.detach())
            self.target_actor.polyak_update(config.tau)
            self.target_critic.polyak_update(config.tau)
        return torch.stack([critic_loss, q.mean(), grad_norm]), (q - target_q).abs().mean(0)

    def _actor_loss(self, obs: Tensor, dataset_actions: Tensor) -> Tensor:
        """Return -E[Q_1(s, mu(s))], whose gradient is eq. 7 of Silver et al. 2014.

        `dataset_actions` `[B, act_dim]` are the actions taken in `obs`; only subclasses use them.
        """
        return -q_values(self.policy.critic, obs, self.policy.act(obs), members=1).mean()

    @torch.no_grad()
    def _target_q(self, batch: Transitions, i: int, update: int) -> Tensor:
        """Return the TD targets R + gamma^m min_i Qbar_i(s', clip(mubar(s') + clip(noise))), `[B]`.

        See Fujimoto et al. 2018, eq. 14 and algorithm 1. A bar marks a target network.
        """
        config, like = self.config, self.critic_optimizer.vector
        next_obs = cast_obs(batch.next_obs[i], like)
        action = self.target_actor.module(next_obs).tanh()
        _, noise_std, noise_clip = config.td3_settings
        if noise_std:
            noise = self.noise(update, tuple(action.shape), like).mul_(noise_std)
            action = action.add_(noise.clamp_(-noise_clip, noise_clip)).clamp_(-1.0, 1.0)
        next_q = q_values(self.target_critic.module, next_obs, action).amin(0)
        return td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), next_q)


def build_torch(
    config: RunConfig, context: BuildContext, env: VectorEnv, encoder_spec: EncoderSpec, actions: UnitCodec
) -> OffPolicyComponents:
    """Build the policy, its exploration and its learner."""
    algo, size = cast(DeterministicConfig, config.algo), actions.size
    with context.network_init(config):
        policy = build_encoded_policy(algo, config.seed, encoder_spec, size).to(context.device)
    forward, noise_std = inference_function(policy.actor), algo.exploration_noise

    def explore(obs: Tensor, noise: Tensor) -> Tensor:
        return forward(obs).tanh_().add_(noise, alpha=noise_std).clamp_(-1.0, 1.0)

    exploration_args = (size, env.n_envs, config.seed, context.device)
    exploration = NoisyExploration(explore, (size,), *exploration_args)
    learner = TD3Learner(policy, algo, UpdateNoise(context.streams))
    return OffPolicyComponents(policy, exploration, learner, actions)


def build_encoded_policy(
    algo: TD3LikeConfig, seed: int, encoder_spec: EncoderSpec, act_dim: int
) -> DeterministicPolicy:
    """Build the initial policy of a run; for images, encoders come before its networks."""
    policy = init_weights(build_policy(algo, encoder_spec, act_dim), seed)
    policy.actor = encoder_spec.wrap_actor(policy.actor)
    policy.critic = encoder_spec.wrap_ensemble(policy.critic)
    return policy


def build_policy(algo: TD3LikeConfig, encoder_spec: EncoderSpec, act_dim: int) -> DeterministicPolicy:
    """Build the configured actor and critics, which take features."""
    sizes = (encoder_spec.features, act_dim, algo.n_critics, *algo.hidden_widths)
    return DeterministicPolicy(*sizes, algo.activation, encoder_spec.actor_features)
