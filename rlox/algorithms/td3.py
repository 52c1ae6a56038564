"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477), and DDPG (Lillicrap et al. 2016), of which it is more."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rlox.algorithms.encoding import encoding_of
from rlox.algorithms.off_policy import OffPolicy, off_policy_parts
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvSource
from rlox.losses import critics_gradient, critics_loss, td_target
from rlox.networks import ActionValues, begun, inference
from rlox.optim import Adam, TargetNetwork
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.engine import stepped, told_where
from rlox.policies.exploration import NoisyExploration
from rlox.policies.native_exploring import NativeExploration
from rlox.policies.native_vectors import NativeDeterministic
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import Choice
from rlox.training.finite import require_finite, require_finite_parameters
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
from rlox.types import Clock, Transitions, Update

__all__ = ["TD3", "NativeTD3Learner", "TD3Learner"]

NAMES = ("loss/critic", "value/q_mean", "train/grad_norm")


class TD3Learner(ActorCriticLearner[DeterministicPolicy]):
    """A deterministic actor and critics, each with a target, and what batches of transitions do to them.

    `noise` gives the standard normal numbers of an update.
    """

    def __init__(
        self, policy: DeterministicPolicy, config: DeterministicConfig, noise: Noise
    ) -> None:
        self.config, self.noise = config, noise
        lr = config.initial("learning_rate")
        self.actor = Adam(policy.actor, lr, eps=1e-8)
        self.critic = Adam(policy.critic, lr, eps=1e-8)
        self.target_actor = TargetNetwork(copy.deepcopy(policy.actor), self.actor.flat)
        self.target_critic = TargetNetwork(copy.deepcopy(policy.critic), self.critic.flat)
        self._actor_losses: list[Tensor] = []  # of the update under way
        self._actor_loss: float | None = None  # their mean in the last update that had some
        parts: dict[str, Stateful] = {"actor": self.actor, "critic": self.critic}
        parts |= {"target_actor": self.target_actor, "target_critic": self.target_critic}
        super().__init__(policy, parts, [self.target_actor, self.target_critic])

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of the critics for each batch; of the actor and the targets every `policy_delay`."""
        lr = self.config.at("learning_rate", clock.remaining)
        self.actor.lr = self.critic.lr = lr
        batch = batch.to(self.critic.vector.device)
        where = f"update {clock.updates} (env_steps {batch.env_steps})"
        update = self._learn(batch, clock.updates, where)
        metrics = {**update.metrics, "train/learning_rate": lr}
        if self._actor_loss is not None:
            metrics["loss/actor"] = self._actor_loss
        return replace(update, metrics=metrics)

    def _learn(self, batch: Transitions, number: int, where: str) -> Update:
        """All batches, the first of which is `number` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), NAMES, where)
        if self._actor_losses:
            table = torch.stack(self._actor_losses).unsqueeze(-1)
            require_finite(table, ("loss/actor",), where)
            self._actor_loss = float(table.mean())
            self._actor_losses.clear()
        for optimizer in (self.actor, self.critic):
            require_finite_parameters(self.policy, optimizer.vector, where)
        return update

    def state(self) -> dict[str, Any]:
        """With the last loss of the actor, which is told where it does not learn."""
        state = super().state()
        if self._actor_loss is not None:
            state["optimizer"]["actor_loss"] = self._actor_loss
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)
        self._actor_loss = state["optimizer"].get("actor_loss")

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """The critics, and when it is their turn the actor and the targets."""
        config, like = self.config, self.critic.vector
        obs = seen(batch.obs[i], like)
        goal = self._goal(batch, i, update)
        values = ActionValues(self.policy.critic, obs, batch.actions[i].to(like))
        q, weights = values.out, None if batch.weights is None else batch.weights[i].to(like)
        values.learn(critics_gradient(q, goal, weights))
        norm = self.critic.clip(config.max_grad_norm)
        self.critic.step()
        if (update + 1) % config.delays.policy_delay == 0:
            self._actor_losses.append(self._improve_actor(obs))
            self.target_actor.follow(config.tau)
            self.target_critic.follow(config.tau)
        loss = critics_loss(q, goal, weights)
        return torch.stack([loss, q.mean(), norm]), (q - goal).abs().mean(0)

    def _improve_actor(self, obs: Tensor) -> Tensor:
        """One step along the gradient of the first critic's values; their mean, negative."""
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


class NativeTD3Learner(TD3Learner):
    """All batches of a training in one call of Rust.

    Differs from `TD3Learner` by rounding only, and has a state that each can go on from.
    """

    def __init__(
        self, policy: DeterministicPolicy, config: DeterministicConfig, noise: Noise
    ) -> None:
        super().__init__(policy, config, noise)
        self.native = NativeDeterministic(policy, self.actor.flat, self.critic.flat)

    def _learn(self, batch: Transitions, number: int, where: str) -> Update:
        config, (delay, deviation, limit) = self.config, self.config.delays
        self.native.check()
        errors = np.empty(batch.rewards.shape, np.float32)
        shape, like = tuple(batch.actions.shape[1:]), self.critic.vector
        drawn = [self.noise(number + i, shape, like) for i in range(len(batch) if deviation else 0)]
        noise = torch.stack(drawn).numpy() if drawn else None
        with told_where(where), stepped(self.actor) as actor, stepped(self.critic) as critic:
            told = self.native.learns.learn(
                actor,
                critic,
                self.target_actor.vector.numpy(),
                self.target_critic.vector.numpy(),
                batch.obs.numpy(),
                batch.actions.numpy(),
                batch.rewards.numpy(),
                batch.next_obs.numpy(),
                batch.discounts.numpy(),
                errors,
                noise,
                None if batch.weights is None else batch.weights.numpy(),
                first=number,
                learning_rate=self.actor.lr,
                tau=config.tau,
                policy_delay=delay,
                target_noise=deviation,
                noise_clip=limit,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic.eps,
            )
        self._actor_loss = told.get("actor", self._actor_loss)
        numbers = told["critic"], told["q_mean"], told["grad_norm"]
        return learned(batch, dict(zip(NAMES, numbers, strict=True)), errors)


def make(config: RunConfig, tools: Tools) -> Parts:
    """A deterministic policy's learner on replayed transitions: TD3's and, with its settings, DDPG's."""
    algo = cast(DeterministicConfig, config.algo)
    choice = Choice(algo.backend, config, algo.batch_size, tools.backend)

    def compose(env: VectorEnv) -> OffPolicy:
        actions = env.actions.unit(config.env.id, algo.name)
        encoding = encoding_of(algo, env.observations)
        sizes = (encoding.features, actions.size, algo.n_critics, *algo.widths)
        policy = begun(DeterministicPolicy(*sizes, algo.activation), config.seed)
        policy.actor = encoding.before(policy.actor)
        policy.critic = encoding.ensemble(policy.critic)
        policy = policy.to(tools.device)
        forward, deviation = inference(policy.actor), algo.exploration_noise

        def explore(obs: Tensor, noise: Tensor) -> Tensor:
            return forward(obs).tanh_().add_(noise, alpha=deviation).clamp_(-1.0, 1.0)

        run = (actions.size, env.n_envs, config.seed, tools.device)
        given = (policy, algo, UpdateNoise(tools.streams))
        learner = choice.learner(
            policy, lambda: NativeTD3Learner(*given), lambda: TD3Learner(*given)
        )
        behaviour = (
            NativeExploration(learner.native, *run, deviation)
            if isinstance(learner, NativeTD3Learner)
            else NoisyExploration(explore, (actions.size,), *run)
        )
        return OffPolicy(policy, behaviour, learner, choice.made, actions)

    return off_policy_parts(config, tools, compose)


class TD3(Algorithm):
    """Twin delayed deep deterministic policy gradient, for Box actions with finite bounds.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments; `None`: 1, or as many as a ready vectorised one has
    seed : keys every random stream of the run
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `TD3Config` (`policy_delay`, `target_noise`, `noise_clip`, ...), of its
        buffer (`buffer_size`, ...) or of `EnvConfig` (its `backend` as `env_backend`), or `device`;
        unknown names are errors
    """

    name = "td3"
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
        config = config_from_arguments("td3", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)
