"""A2C: synchronous advantage actor-critic (Mnih et al. 2016), one gradient step on each rollout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from rlox.algorithms.on_policy import (
    collector_of,
    explained_variance,
    on_policy_parts,
    own_policy,
    where,
)
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import A2CConfig, RunConfig
from rlox.configs.code import Code
from rlox.configs.schedules import is_constant
from rlox.envs.make import EnvSource
from rlox.losses import policy_gradient, standardize, value_loss
from rlox.optim import Adam, RMSprop
from rlox.policies import ActorCritic
from rlox.policies.native import NativePolicy, unmasked
from rlox.policies.plain import counted, told_where
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import Choice
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, environment_of
from rlox.types import Clock, Minibatch, Rollout, Update

__all__ = ["A2C", "A2CLearner", "NativeA2CLearner"]

RMS_DECAY = 0.99
NAMES = ("loss/policy", "loss/value", "policy/entropy", "loss/total", "train/grad_norm")


class A2CLearner(PolicyLearner[ActorCritic]):
    """What one rollout does to the weights: one step along the gradient of the whole of it."""

    def __init__(self, policy: ActorCritic, config: A2CConfig) -> None:
        self.optimizer: Adam | RMSprop = _optimizer(policy, config)
        super().__init__(policy, self.optimizer)
        self.config = config

    @torch.no_grad()
    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; the schedule is read once, from the clock at its start."""
        config = self.config
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        ent_coef = config.at("ent_coef", clock.remaining)
        rows = batch.rows()
        metrics = self._step(rows, ent_coef, where(batch, clock))
        metrics["value/explained_variance"] = explained_variance(rows.values, rows.returns)
        metrics["train/learning_rate"] = self.optimizer.lr
        if not is_constant(config.ent_coef):
            metrics["train/ent_coef"] = ent_coef
        return Update(metrics, count=1, samples=len(rows.obs))

    def _step(self, rows: Minibatch, ent_coef: float, where: str) -> dict[str, float]:
        """One step along the gradient of all rows; the numbers `NAMES` of it."""
        config = self.config
        advantages = (
            standardize(rows.advantages) if config.normalize_advantages else rows.advantages
        )
        scored, n = self.policy.scored(rows.obs, rows.actions), len(rows.obs)
        values, entropy = scored.values, scored.entropy.mean()
        policy, value = (
            policy_gradient(scored.log_probs, advantages),
            value_loss(values, rows.returns),
        )
        total = policy + config.vf_coef * value - ent_coef * entropy
        scored.learn(
            advantages * (-1.0 / n),
            torch.full_like(values, -ent_coef / n) if ent_coef else None,
            (values - rows.returns) * (2.0 * config.vf_coef / n),
        )
        norm = self.optimizer.clip(config.max_grad_norm)
        self.optimizer.step()
        row = torch.stack([policy, value, entropy, total, norm])
        require_finite(row[None], NAMES, where)
        require_finite_parameters(self.policy, self.optimizer.vector, where)
        return dict(zip(NAMES, row.tolist(), strict=True))


class NativeA2CLearner(A2CLearner):
    """The same step in Rust, on the parameters and moments of torch's: it differs by rounding only."""

    def __init__(self, policy: ActorCritic, config: A2CConfig) -> None:
        super().__init__(policy, config)
        self.native = NativePolicy(policy, self.optimizer.flat)

    def _step(self, rows: Minibatch, ent_coef: float, where: str) -> dict[str, float]:
        optimizer, config = self.optimizer, self.config
        moments = [optimizer.moment(name).numpy() for name in optimizer.moments]
        obs, mask = unmasked(rows)
        self.native.check()
        with told_where(where), counted(optimizer) as steps:
            told = self.native.engine.a2c(
                optimizer.vector.numpy(),
                moments[0],
                moments[1] if len(moments) > 1 else None,
                steps,
                obs,
                rows.actions.numpy(),
                rows.advantages.numpy(),
                rows.returns.numpy(),
                learning_rate=optimizer.lr,
                vf_coef=config.vf_coef,
                ent_coef=ent_coef,
                max_grad_norm=config.max_grad_norm,
                normalize_advantages=config.normalize_advantages,
                alpha=RMS_DECAY,
                eps=optimizer.eps,
                tf_like=config.rms_prop_tf_like,
                mask=mask,
            )
        return {name: told[name.rpartition("/")[2]] for name in NAMES}


def make(config: RunConfig, tools: Tools) -> Parts:
    """A2C's learner on rollouts."""
    algo = cast(A2CConfig, config.algo)
    choice = Choice(algo.backend, config, algo.n_steps * config.env.n_envs, tools.backend)

    def learner(policy: ActorCritic) -> Learner[Rollout]:
        return choice.learner(
            policy, lambda: NativeA2CLearner(policy, algo), lambda: A2CLearner(policy, algo)
        )

    return replace(on_policy_parts(config, tools, learner), backend=choice.made)


class A2C(Algorithm):
    """Synchronous advantage actor-critic.

    Observation and action spaces come from the environment: `DiscretePolicy` for Discrete actions,
    `ContinuousPolicy` (or gSDE with `use_sde=True`) for Box.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments; `None`: 8, or as many as a ready vectorised one has
    seed : keys every random stream of the run
    policy : a module with `get_action_and_logprob`, `get_value`, `get_logprob_and_entropy`, and `mode`
        (or an `actor` that gives logits or means) to play with; or what makes one of the spaces, also
        by name: `"module:Name"`, `{"name": "module:Name", "hidden": 32}`
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `A2CConfig` or `EnvConfig` (its `backend` as `env_backend`), or
        `device`; unknown names are errors
    """

    name = "a2c"
    make = staticmethod(make)
    collector = property(collector_of)

    def __init__(
        self,
        env_id: EnvSource = DEFAULT_ENV,
        n_envs: int | None = None,
        seed: int = 42,
        policy: nn.Module | Code | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = environment_of(env_id, DEFAULT_ENV, config_kwargs)
        held = own_policy(policy, config_kwargs)
        config = config_from_arguments("a2c", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, held, logger, callbacks)


def _optimizer(policy: ActorCritic, config: A2CConfig) -> Adam | RMSprop:
    if not config.use_rms_prop:
        return Adam(policy, config.initial("learning_rate"))
    return RMSprop(
        policy,
        config.initial("learning_rate"),
        alpha=RMS_DECAY,
        eps=config.rms_prop_eps,
        tf_like=config.rms_prop_tf_like,
    )
