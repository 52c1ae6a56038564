"""Soft actor-critic's update in torch, of vectors and of choices."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.off_policy import OffPolicy
from rlox.algorithms.replay_schedule import Scheduled
from rlox.algorithms.sac_schedule import NAMES, Soft, target_entropy
from rlox.configs import RunConfig, SACConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.losses import critics_gradient, critics_loss, soft_policy_loss, td_target
from rlox.networks import (
    EnsembleMLP,
    SquashedGaussianPolicy,
    SquashedSDEPolicy,
    begun,
    inference,
)
from rlox.optim import Adam, TargetNetwork
from rlox.policies.exploration import NoisyExploration, SampledChoices
from rlox.policies.soft import CategoricalSoftPolicy, SoftPolicy, SquashedPolicy
from rlox.training.finite import require_finite_parameters
from rlox.training.learned import Stateful, where
from rlox.training.learner import ActorCriticLearner, Noise, UpdateNoise, learn_each, seen
from rlox.training.parts import Tools
from rlox.training.temperature import LearnedTemperature, Temperature
from rlox.types import Clock, Transitions, Update

__all__ = ["SACLearner", "of_choices", "of_vectors", "squashed"]

HALF = 0.5  # of the critics' loss, as in its eq. 5


class SACLearner(Scheduled, ActorCriticLearner[SoftPolicy]):
    """An actor, critics and their target, a temperature, and what batches of transitions do to them.

    `target_entropy` is that of a learned temperature; `noise` gives the standard normal numbers of an
    update.
    """

    config: Soft

    def __init__(
        self, policy: SoftPolicy, config: Soft, target_entropy: float, noise: Noise
    ) -> None:
        self.config, self.noise = config, noise
        lr = config.initial("learning_rate")
        self.actor = Adam(policy.actor, lr, eps=1e-8)
        self.critic = Adam(policy.critic, lr, eps=1e-8)
        self.target = TargetNetwork(copy.deepcopy(policy.critic), self.critic.flat)
        learned, alpha = config.temperature
        like = self.critic.vector
        self.temperature = (
            LearnedTemperature(alpha, target_entropy, lr, like)
            if learned
            else Temperature(alpha, like)
        )
        parts: dict[str, Stateful] = {"actor": self.actor, "critic": self.critic}
        parts |= {"target": self.target, "temperature": self.temperature}
        super().__init__(policy, parts, [self.target])

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of everything for each batch."""
        self._schedule(clock)
        batch = batch.to(self.critic.vector.device)
        return self._told(self._learn(batch, clock.updates, where(batch, clock)))

    def _learn(self, batch: Transitions, number: int, at: str) -> Update:
        """All batches, the first of which is `number` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), NAMES, at)
        for optimizer in (self.actor, self.critic):
            require_finite_parameters(self.policy, optimizer.vector, at)
        return update

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """Temperature, critics, actor, target; the numbers `NAMES` and the errors `[B]`."""
        policy, config, like = self.policy, self.config, self.critic.vector
        obs = seen(batch.obs[i], like)
        noise, rest = self._noise(update, len(obs), like)
        drawn, log_prob, learn = policy.draw(obs, noise)
        alpha = self.temperature.alpha
        loss_temperature = self.temperature.learn(log_prob, self.actor.lr)
        loss_critic, q, error, norm = self._improve_critics(batch, i, obs, alpha, rest)
        value, back = policy.value(policy.critic, obs, drawn)
        loss_actor = soft_policy_loss(log_prob, value, alpha)
        share = torch.full_like(value, 1.0 / len(value))  # of a row in that mean
        learn(back(share.neg()), share * alpha)
        self.actor.clip(config.max_grad_norm)
        self.actor.step()
        if (update + 1) % config.target_update_interval == 0:
            self.target.follow(config.tau)
        losses = (loss_critic, loss_actor, loss_temperature)
        return torch.stack([*losses, q.mean(), -log_prob.mean(), alpha, norm]), error

    def _noise(self, update: int, rows: int, like: Tensor) -> tuple[Tensor, Any]:
        """What the actor's step draws with, and the critics'."""
        noise = self.noise(update, (2, *self.policy.noise_shape(rows)), like)
        return noise[0], noise[1]

    def _improve_critics(
        self, batch: Transitions, i: int, obs: Tensor, alpha: Tensor, noise: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One step of the critics; their loss, values `[members, B]`, mean error `[B]`, gradient norm."""
        policy, like = self.policy, self.critic.vector
        next_obs = seen(batch.next_obs[i], like)
        drawn, log_prob, _ = policy.draw(next_obs, noise)
        value = policy.value(self.target.module, next_obs, drawn)[0] - alpha * log_prob
        goal = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), value)
        actions = batch.actions[i]
        actions = actions.to(like) if actions.is_floating_point() else actions
        q, learn = policy.taken(policy.critic, obs, actions)
        weights = None if batch.weights is None else batch.weights[i].to(like)
        learn(critics_gradient(q, goal, weights).mul_(HALF))
        norm = self.critic.clip(self.config.max_grad_norm)
        self.critic.step()
        loss = HALF * critics_loss(q, goal, weights)
        return loss, q, (q - goal).abs().mean(0), norm


def of_vectors(
    config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding, actions: UnitCodec
) -> OffPolicy:
    """Squashed Gaussians in a Box, with gSDE where it is asked for."""
    algo, size = cast(SACConfig, config.algo), actions.size
    with tools.networks(config):
        policy = begun(squashed(algo, encoding.features, size), config.seed)
        policy.actor.net = encoding.before(policy.actor.net)
        policy.critic = encoding.ensemble(policy.critic)
    policy = policy.to(tools.device)
    shape = (size,) if not algo.use_sde else (algo.net_arch[-1], size)
    once = -(-algo.train_freq // env.n_envs) if algo.sde_sample_freq == -1 else algo.sde_sample_freq
    every = once if algo.use_sde else 1
    run = (size, env.n_envs, config.seed, tools.device)
    behaviour = NoisyExploration(policy.actor.explore, shape, *run, every)
    noise, entropy = UpdateNoise(tools.streams), target_entropy(algo, actions)
    return OffPolicy(policy, behaviour, SACLearner(policy, algo, entropy, noise), actions)


def squashed(algo: Soft, features: int, size: int) -> SquashedPolicy:
    """The actor and the critics of features that are configured."""
    net_arch, critic_net_arch = algo.widths
    actor = (
        SquashedSDEPolicy(features, size, net_arch, algo.activation, algo.log_std_init)
        if algo.use_sde
        else SquashedGaussianPolicy(features, size, net_arch=net_arch, activation=algo.activation)
    )
    sizes = (features + size, *critic_net_arch, 1)
    return SquashedPolicy(actor, EnsembleMLP(algo.n_critics, sizes, algo.activation))


def of_choices(config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding) -> OffPolicy:
    """A distribution over a Discrete space (Christodoulou 2019)."""
    algo = cast(SACConfig, config.algo)
    sizes = (encoding.features, env.actions.size, algo.n_critics, *algo.widths)
    with tools.networks(config):
        policy = begun(CategoricalSoftPolicy(*sizes, algo.activation), config.seed)
        policy.actor.net = encoding.before(policy.actor.net)
        policy.critic = encoding.ensemble(policy.critic)
    policy = policy.to(tools.device)
    logits = inference(policy.actor.net)
    behaviour = SampledChoices(logits, env.actions.size, env.n_envs, config.seed, tools.device)
    noise, entropy = UpdateNoise(tools.streams), target_entropy(algo, env.actions)
    return OffPolicy(policy, behaviour, SACLearner(policy, algo, entropy, noise))
