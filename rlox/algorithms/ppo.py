"""PPO: proximal policy optimisation with a clipped surrogate (Schulman et al. 2017)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import torch
from torch import Tensor, nn

from rlox.algorithms.on_policy import (
    collector_of,
    explained_variance,
    on_policy_parts,
    own_policy,
    where,
)
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import PPOConfig, RunConfig
from rlox.configs.code import Code
from rlox.configs.schedules import is_constant
from rlox.envs.make import EnvSource
from rlox.losses import PPOLoss, PPOTerms, Slopes, standardize
from rlox.optim import Adam
from rlox.policies import ActorCritic, Scored
from rlox.rng import Streams
from rlox.runs.algorithm import Algorithm
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, environment_of
from rlox.types import Clock, Minibatch, Rollout, Update

__all__ = ["PPO", "ClippedLearner", "PPOLearner"]


class Learned(Protocol):
    """What the loss reads of a minibatch."""

    @property
    def log_probs(self) -> Tensor:
        """Of the policy that acted, `[B]`."""

    @property
    def values(self) -> Tensor:
        """When it acted, `[B]`."""

    @property
    def advantages(self) -> Tensor:
        """Estimated for what was done, `[B]`."""

    @property
    def returns(self) -> Tensor:
        """What values are to become, `[B]`."""


P = TypeVar("P", bound=nn.Module)
M = TypeVar("M", bound=Learned)


class ClippedLearner(PolicyLearner[P], ABC, Generic[P, M]):
    """What one rollout does to the weights: `n_epochs` passes of shuffled minibatches.

    What a minibatch is, and what a policy says of it, is left to those that have one.
    """

    def __init__(self, policy: P, config: PPOConfig, streams: Streams) -> None:
        super().__init__(policy, Adam(policy, config.initial("learning_rate")))
        self.config = config
        self.streams = streams
        self.loss = PPOLoss(
            config.initial("clip_eps"),
            config.vf_coef,
            config.initial("ent_coef"),
            config.max_grad_norm,
            config.clip_vloss,
        )

    @torch.no_grad()
    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; the schedules are read once, from the clock at its start."""
        self._schedule(clock)
        steps: list[Tensor] = []
        epochs = samples = 0
        for epoch in range(self.config.n_epochs):
            learned, finished = self._epoch(batch, epoch, steps)
            samples += learned
            epochs += finished
            if not finished:
                break
        metrics = self._metrics(batch, steps, epochs, clock)
        require_finite_parameters(self.policy, self.optimizer.vector, where(batch, clock))
        return Update(metrics, count=1, samples=samples)

    @abstractmethod
    def _minibatches(self, batch: Rollout, generator: torch.Generator) -> Iterator[M]:
        """Disjoint minibatches that cover every valid row once, in an order that `generator` gives."""

    @abstractmethod
    def _evaluate(self, minibatch: M) -> Scored:
        """What the policy says of what was done."""

    def _epoch(self, batch: Rollout, epoch: int, steps: list[Tensor]) -> tuple[int, bool]:
        """One pass, whose numbers go to `steps`; the rows learned from, and whether it was all of them.

        The shuffled copy of the rollout goes with the pass, before the next one makes its own.
        """
        samples = 0
        generator = self.streams.generator("shuffle", batch.index * self.config.n_epochs + epoch)
        for minibatch in self._minibatches(batch, generator):
            row = self._step(minibatch)
            if row is None:
                return samples, False
            steps.append(row)
            samples += len(minibatch.returns)
        return samples, True

    def _step(self, minibatch: M) -> Tensor | None:
        """One gradient step and its numbers; None, and no step, of a policy that has gone too far.

        What the policy said, with its layers' memory, goes before the next minibatch's comes.
        """
        scored = self._evaluate(minibatch)
        terms, slopes = self._terms(scored, minibatch)
        if self._too_far(terms):
            return None
        scored.learn(*slopes)
        norm = self.optimizer.clip(self.config.max_grad_norm)
        self.optimizer.step()
        return torch.stack([*terms[1:], terms.total, norm])

    def _schedule(self, clock: Clock) -> None:
        left = clock.remaining
        self.optimizer.lr = self.config.at("learning_rate", left)
        self.loss.clip_eps = self.config.at("clip_eps", left)
        self.loss.ent_coef = self.config.at("ent_coef", left)

    def _terms(self, scored: Scored, minibatch: M) -> tuple[PPOTerms, Slopes]:
        advantages = minibatch.advantages
        if self.config.normalize_advantages:
            advantages = standardize(advantages)
        return self.loss.gradient(
            scored.log_probs,
            scored.entropy,
            scored.values,
            minibatch.log_probs,
            advantages,
            minibatch.returns,
            minibatch.values,
        )

    def _too_far(self, terms: PPOTerms) -> bool:
        target = self.config.target_kl
        return target is not None and float(terms.approx_kl) > 1.5 * target

    def _metrics(
        self, batch: Rollout, steps: list[Tensor], epochs: int, clock: Clock
    ) -> dict[str, float]:
        rows = batch.rows()
        metrics = {"value/explained_variance": explained_variance(rows.values, rows.returns)}
        if steps:
            names = (
                "loss/policy",
                "loss/value",
                "policy/entropy",
                "policy/approx_kl",
                "policy/clip_fraction",
                "loss/total",
                "train/grad_norm",
            )
            table = torch.stack(steps)
            require_finite(table, names, where(batch, clock))
            metrics |= dict(zip(names, table.mean(0).tolist(), strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        metrics["train/clip_eps"] = self.loss.clip_eps
        if not is_constant(self.config.ent_coef):
            metrics["train/ent_coef"] = self.loss.ent_coef
        metrics["train/epochs"] = float(epochs)
        return metrics


class PPOLearner(ClippedLearner[ActorCritic, Minibatch]):
    """The rows of a rollout in any order: each says all that the policy reads."""

    def _minibatches(self, batch: Rollout, generator: torch.Generator) -> Iterator[Minibatch]:
        return batch.sample_minibatches(self.config.batch_size, True, generator)

    def _evaluate(self, minibatch: Minibatch) -> Scored:
        return self.policy.scored(minibatch.obs, minibatch.actions)


def make(config: RunConfig, tools: Tools) -> Parts:
    """PPO's learner on rollouts."""
    algo = cast(PPOConfig, config.algo)
    return on_policy_parts(
        config,
        tools,
        lambda policy: PPOLearner(policy, algo, tools.streams),
        minibatch=algo.batch_size,
    )


class PPO(Algorithm):
    """Proximal policy optimisation.

    Observation and action spaces come from the environment: `DiscretePolicy` for Discrete actions,
    `ContinuousPolicy` (or gSDE with `use_sde=True`) for Box.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments
    seed : keys every random stream of the run
    policy : a module with `get_action_and_logprob`, `get_value`, `get_logprob_and_entropy`, and `mode`
        (or an `actor` that gives logits or means) to play with; or what makes one of the spaces, also
        by name: `"module:Name"`, `{"name": "module:Name", "hidden": 32}`
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `PPOConfig` or `EnvConfig` (its `backend` as `env_backend`), or
        `device`; unknown names are errors
    """

    name = "ppo"
    make = staticmethod(make)
    collector = property(collector_of)

    def __init__(
        self,
        env_id: EnvSource = DEFAULT_ENV,
        n_envs: int = 8,
        seed: int = 42,
        policy: nn.Module | Code | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = environment_of(env_id, DEFAULT_ENV, config_kwargs)
        held = own_policy(policy, config_kwargs)
        config = config_from_arguments("ppo", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, held, logger, callbacks)
