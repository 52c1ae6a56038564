"""What PPO's updates have in common: passes of shuffled minibatches over one rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from rlox.algorithms.on_policy import explained_variance, where
from rlox.configs import PPOConfig
from rlox.configs.schedules import is_constant
from rlox.losses import PPOLoss, PPOTerms, Slopes, standardize
from rlox.optim import Adam
from rlox.policies import Scored
from rlox.rng import Streams
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner
from rlox.types import Clock, Rollout, Update

__all__ = ["NAMES", "Clipped", "ClippedLearner"]

# Means over the minibatches of an update, by their names in the metrics.
NAMES = (
    "loss/policy",
    "loss/value",
    "policy/entropy",
    "policy/approx_kl",
    "policy/clip_fraction",
    "loss/total",
    "train/grad_norm",
)


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


class Clipped(PolicyLearner[P]):
    """A policy, its optimizer and loss, the schedules of both, and what an update says of itself."""

    def __init__(self, policy: P, config: PPOConfig, streams: Streams) -> None:
        self.adam = Adam(policy, config.initial("learning_rate"))
        super().__init__(policy, self.adam)
        self.config = config
        self.streams = streams
        self.loss = PPOLoss(
            config.initial("clip_eps"),
            config.vf_coef,
            config.initial("ent_coef"),
            config.max_grad_norm,
            config.clip_vloss,
        )

    def _shuffler(self, index: int, epoch: int) -> torch.Generator:
        """What a pass over rollout number `index` is shuffled by."""
        return self.streams.generator("shuffle", index * self.config.n_epochs + epoch)

    def _schedule(self, clock: Clock) -> None:
        left = clock.remaining
        self.optimizer.lr = self.config.at("learning_rate", left)
        self.loss.clip_eps = self.config.at("clip_eps", left)
        self.loss.ent_coef = self.config.at("ent_coef", left)

    def _metrics(
        self, explained: float, means: Mapping[str, float], epochs: int
    ) -> dict[str, float]:
        metrics = {"value/explained_variance": explained, **means}
        metrics["train/learning_rate"] = self.optimizer.lr
        metrics["train/clip_eps"] = self.loss.clip_eps
        if not is_constant(self.config.ent_coef):
            metrics["train/ent_coef"] = self.loss.ent_coef
        metrics["train/epochs"] = float(epochs)
        return metrics


class ClippedLearner(Clipped[P], ABC, Generic[P, M]):
    """What one rollout does to the weights: `n_epochs` passes of shuffled minibatches.

    What a minibatch is, and what a policy says of it, is left to those that have one.
    """

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
        means, update = {}, where(batch.index, len(batch), clock)
        if steps:
            table = torch.stack(steps)
            require_finite(table, NAMES, update)
            means = dict(zip(NAMES, table.mean(0).tolist(), strict=True))
        rows = batch.rows()
        metrics = self._metrics(explained_variance(rows.values, rows.returns), means, epochs)
        require_finite_parameters(self.policy, self.optimizer.vector, update)
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
        for minibatch in self._minibatches(batch, self._shuffler(batch.index, epoch)):
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
