"""SAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905), of vectors and of choices."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rlox.algorithms.encoding import encoding_of
from rlox.algorithms.off_policy import OffPolicy, off_policy_parts
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig, SACConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvSource
from rlox.errors import ConfigError
from rlox.losses import critics_gradient, critics_loss, soft_policy_loss, td_target
from rlox.networks import (
    EnsembleMLP,
    SquashedGaussianPolicy,
    SquashedSDEPolicy,
    begun,
    inference,
)
from rlox.optim import Adam, TargetNetwork
from rlox.policies.engine import stepped, told_where
from rlox.policies.exploration import NoisyExploration, SampledChoices
from rlox.policies.native_exploring import NativeExploration
from rlox.policies.native_vectors import NativeSquashed
from rlox.policies.soft import CategoricalSoftPolicy, SoftPolicy, SquashedPolicy
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import Choice
from rlox.training.finite import require_finite_parameters
from rlox.training.learner import (
    ActorCriticLearner,
    Noise,
    Stateful,
    UpdateNoise,
    learn_each,
    learned,
    seen,
)
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, environment_of
from rlox.training.temperature import LearnedTemperature, Temperature
from rlox.types import Clock, Transitions, Update

__all__ = ["SAC", "NativeSACLearner", "SACLearner"]

NAMES = (
    "loss/critic",
    "loss/actor",
    "loss/temperature",
    "value/q_mean",
    "policy/entropy",
    "policy/temperature",
    "train/grad_norm",
)


HALF = 0.5  # of the critics' loss, as in its eq. 5


class SACLearner(ActorCriticLearner[SoftPolicy]):
    """An actor, critics and their target, a temperature, and what batches of transitions do to them.

    `target_entropy` is that of a learned temperature; `noise` gives the standard normal numbers of an
    update.
    """

    def __init__(
        self, policy: SoftPolicy, config: SACConfig, target_entropy: float, noise: Noise
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
        lr = self.config.at("learning_rate", clock.remaining)
        self.actor.lr = self.critic.lr = lr
        batch = batch.to(self.critic.vector.device)
        where = f"update {clock.updates} (env_steps {batch.env_steps})"
        update = self._learn(batch, clock.updates, where)
        return replace(update, metrics={**update.metrics, "train/learning_rate": lr})

    def _learn(self, batch: Transitions, number: int, where: str) -> Update:
        """All batches, the first of which is `number` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), NAMES, where)
        for optimizer in (self.actor, self.critic):
            require_finite_parameters(self.policy, optimizer.vector, where)
        return update

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """Temperature, critics, actor, target; the numbers `NAMES` and the errors `[B]`."""
        policy, config, like = self.policy, self.config, self.critic.vector
        obs = seen(batch.obs[i], like)
        noise = self.noise(update, (2, *policy.noise_shape(len(obs))), like)
        drawn, log_prob, learn = policy.draw(obs, noise[0])
        alpha = self.temperature.alpha
        loss_temperature = self.temperature.learn(log_prob, self.actor.lr)
        loss_critic, q, error, norm = self._improve_critics(batch, i, obs, alpha, noise[1])
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

    def _improve_critics(
        self, batch: Transitions, i: int, obs: Tensor, alpha: Tensor, noise: Tensor
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


class NativeSACLearner(SACLearner):
    """All batches of a training in one call of Rust.

    Differs from `SACLearner` by rounding only, and has a state that each can go on from.
    """

    def __init__(
        self, policy: SoftPolicy, config: SACConfig, target_entropy: float, noise: Noise
    ) -> None:
        super().__init__(policy, config, target_entropy, noise)
        self.native = NativeSquashed(policy, self.actor.flat, self.critic.flat)

    def _learn(self, batch: Transitions, number: int, where: str) -> Update:
        config, temperature = self.config, self.temperature
        self.native.check()
        errors = np.empty(batch.rewards.shape, np.float32)
        shape, like = (2, *batch.actions.shape[1:]), self.critic.vector
        noise = torch.stack([self.noise(number + i, shape, like) for i in range(len(batch))])
        with ExitStack() as held:
            held.enter_context(told_where(where))
            actor, critic = (held.enter_context(stepped(o)) for o in (self.actor, self.critic))
            log, goal = None, float(temperature.alpha)
            if isinstance(temperature, LearnedTemperature):
                temperature.optimizer.lr = self.actor.lr
                log = held.enter_context(stepped(temperature.optimizer))
                goal = temperature.target_entropy
            told = self.native.learns.learn(
                actor,
                critic,
                self.target.vector.numpy(),
                batch.obs.numpy(),
                batch.actions.numpy(),
                batch.rewards.numpy(),
                batch.next_obs.numpy(),
                batch.discounts.numpy(),
                errors,
                noise.numpy(),
                None if batch.weights is None else batch.weights.numpy(),
                log,
                entropy_or_alpha=goal,
                first=number,
                learning_rate=self.actor.lr,
                tau=config.tau,
                target_update_interval=config.target_update_interval,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic.eps,
            )
        names = ("critic", "actor", "temperature", "q_mean", "entropy", "alpha", "grad_norm")
        metrics = {name: told[own] for name, own in zip(NAMES, names, strict=True)}
        return learned(batch, metrics, errors)


def target_entropy(config: SACConfig, actions: ActionCodec) -> float:
    """What is configured, or -dim(A), of choices 0.98 log|A|.

    No policy has more than the uniform one: log|A|, or dim(A) log 2 over [-1, 1]; after more than that the
    temperature grows for ever.
    """
    most = math.log(actions.size) if actions.discrete else actions.size * math.log(2.0)
    if config.target_entropy is not None:
        if config.target_entropy >= most:
            raise ConfigError(
                f"algo.target_entropy={config.target_entropy:g}: no policy gets there, the uniform one has "
                f"{most:.3g}; give less, or leave it out"
            )
        return config.target_entropy
    return 0.98 * most if actions.discrete else -float(actions.size)


def make(config: RunConfig, tools: Tools) -> Parts:
    """SAC's learner on replayed transitions."""
    algo = cast(SACConfig, config.algo)

    def compose(env: VectorEnv) -> OffPolicy:
        of = _choices if env.actions.discrete else _vectors
        return of(config, algo, env, tools)

    return off_policy_parts(config, tools, compose)


def _vectors(config: RunConfig, algo: SACConfig, env: VectorEnv, tools: Tools) -> OffPolicy:
    """Of a Box: squashed Gaussians, with gSDE where it is asked for."""
    actions = env.actions.unit(config.env.id, "sac")
    encoding = encoding_of(algo, env.observations)
    dim, size, (net_arch, critic_net_arch) = encoding.features, actions.size, algo.widths
    actor = (
        SquashedSDEPolicy(dim, size, net_arch, algo.activation, algo.log_std_init)
        if algo.use_sde
        else SquashedGaussianPolicy(dim, size, net_arch=net_arch, activation=algo.activation)
    )
    critic = EnsembleMLP(algo.n_critics, (dim + size, *critic_net_arch, 1), algo.activation)
    policy = begun(SquashedPolicy(actor, critic), config.seed)
    policy.actor.net, policy.critic = encoding.before(actor.net), encoding.ensemble(critic)
    policy = policy.to(tools.device)
    shape = (size,) if not algo.use_sde else (algo.net_arch[-1], size)
    once = -(-algo.train_freq // env.n_envs) if algo.sde_sample_freq == -1 else algo.sde_sample_freq
    every = once if algo.use_sde else 1
    given = (policy, algo, target_entropy(algo, actions), UpdateNoise(tools.streams))
    choice = Choice(algo.backend, config, algo.batch_size, tools.backend)
    learner = choice.learner(policy, lambda: NativeSACLearner(*given), lambda: SACLearner(*given))
    run = (size, env.n_envs, config.seed, tools.device)
    behaviour = (
        NativeExploration(learner.native, *run)
        if isinstance(learner, NativeSACLearner)
        else NoisyExploration(policy.actor.explore, shape, *run, every)
    )
    return OffPolicy(policy, behaviour, learner, choice.made, actions)


def _choices(config: RunConfig, algo: SACConfig, env: VectorEnv, tools: Tools) -> OffPolicy:
    """Of a Discrete space (Christodoulou 2019)."""
    if algo.use_sde:
        raise ConfigError(
            f"algo.use_sde=true needs Box actions, {config.env.id} has {env.action_space}; leave "
            "algo.use_sde out"
        )
    encoding = encoding_of(algo, env.observations)
    sizes = (encoding.features, env.actions.size, algo.n_critics, *algo.widths)
    policy = begun(CategoricalSoftPolicy(*sizes, algo.activation), config.seed)
    policy.actor.net = encoding.before(policy.actor.net)
    policy.critic = encoding.ensemble(policy.critic)
    policy = policy.to(tools.device)
    logits = inference(policy.actor.net)
    behaviour = SampledChoices(logits, env.actions.size, env.n_envs, config.seed, tools.device)
    given = (policy, algo, target_entropy(algo, env.actions), UpdateNoise(tools.streams))
    choice = Choice(algo.backend, config, algo.batch_size, tools.backend)
    learner = choice.learner(policy, lambda: NativeSACLearner(*given), lambda: SACLearner(*given))
    return OffPolicy(policy, behaviour, learner, choice.made)


class SAC(Algorithm):
    """Soft actor-critic for Box actions with finite bounds, and for Discrete ones.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments; `None`: 1, or as many as a ready vectorised one has
    seed : keys every random stream of the run
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `SACConfig` (`ent_coef`, `tau`, `use_sde`, ...), of its buffer
        (`buffer_size`, ...) or of `EnvConfig` (its `backend` as `env_backend`), or `device`; unknown
        names are errors
    """

    name = "sac"
    make = staticmethod(make)

    def __init__(
        self,
        env_id: EnvSource = DEFAULT_ENV,
        n_envs: int | None = None,
        seed: int = 42,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = environment_of(env_id, DEFAULT_ENV, config_kwargs)
        config = config_from_arguments("sac", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)
