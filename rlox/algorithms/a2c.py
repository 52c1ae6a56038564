"""A2C: synchronous advantage actor-critic (Mnih et al. 2016), one gradient step on each rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn

from rlox._core import Iteration
from rlox.algorithms.on_policy import (
    collector_of,
    explained_in_rust,
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
from rlox.types import Clock, Iterated, Minibatch, Rollout, Update

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
        ent_coef = self._schedule(clock)
        rows = batch.rows()
        told = self._step(rows, ent_coef, where(batch.index, len(batch), clock))
        explained = self._explained(rows.values, rows.returns)
        return self._update(told, explained, ent_coef, len(rows.obs))

    _explained = staticmethod(explained_variance)

    def _schedule(self, clock: Clock) -> float:
        """Set the step size; the weight of the entropy."""
        left = clock.remaining
        self.optimizer.lr = self.config.at("learning_rate", left)
        return self.config.at("ent_coef", left)

    def _update(
        self, told: dict[str, float], explained: float, ent_coef: float, samples: int
    ) -> Update:
        """What a step said, with what is known beside it."""
        metrics = {**told, "value/explained_variance": explained}
        metrics["train/learning_rate"] = self.optimizer.lr
        if not is_constant(self.config.ent_coef):
            metrics["train/ent_coef"] = ent_coef
        return Update(metrics, count=1, samples=samples)

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
        # parameters and moments, of which RMSprop has one; where they lie never changes
        first, *second = (self.optimizer.moment(name).numpy() for name in self.optimizer.moments)
        self._vectors = self.native.vector, first, second[0] if second else None

    _explained = staticmethod(explained_in_rust)

    def iterate(self, clock: Clock, iteration: Iteration, index: int, rows: int) -> Iterated:
        """Collect rollout number `index`, of so many rows, and learn from it, with the bits of `update`."""
        ent_coef = self._schedule(clock)
        with told_where(where(index, rows, clock)), counted(self.optimizer) as steps:
            told = iteration.a2c(*self._vectors, steps, **self._settings(ent_coef))
        explained = told["explained_variance"]
        return Iterated(self._update(_named(told), explained, ent_coef, rows), told["seconds"])

    def _step(self, rows: Minibatch, ent_coef: float, where: str) -> dict[str, float]:
        obs, mask = unmasked(rows)
        self.native.check()
        with told_where(where), counted(self.optimizer) as steps:
            told = self.native.engine.a2c(
                *self._vectors,
                steps,
                obs,
                rows.actions.numpy(),
                rows.advantages.numpy(),
                rows.returns.numpy(),
                mask=mask,
                **self._settings(ent_coef),
            )
        return _named(told)

    def _settings(self, ent_coef: float) -> dict[str, Any]:
        """Of an update, as the engine calls them."""
        config = self.config
        return {
            "learning_rate": self.optimizer.lr,
            "vf_coef": config.vf_coef,
            "ent_coef": ent_coef,
            "max_grad_norm": config.max_grad_norm,
            "normalize_advantages": config.normalize_advantages,
            "alpha": RMS_DECAY,
            "eps": self.optimizer.eps,
            "tf_like": config.rms_prop_tf_like,
        }


def _named(told: Mapping[str, float]) -> dict[str, float]:
    """What the engine said, by the names of the metrics."""
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
