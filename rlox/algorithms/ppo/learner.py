"""The update that the PPO learners in torch share: epochs of shuffled minibatches over one rollout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from rlox.algorithms.assembly.on_policy import update_label
from rlox.algorithms.assembly.torch_policies import explained_variance
from rlox.algorithms.ppo.common import METRIC_NAMES, PPOLearnerMixin
from rlox.configs import PPOConfig
from rlox.losses import PPOLoss, PPOTerms, standardize
from rlox.optim import Adam
from rlox.policies import ActorCritic
from rlox.policies.base import evaluate_for_update
from rlox.rng import Streams
from rlox.training.learner import PolicyLearner, require_finite, require_finite_parameters
from rlox.types import Clock, Minibatch, Rollout, Update

__all__ = ["ClippedLearner", "ClippedLearnerBase", "PPOLearner"]


class ClippedMinibatch(Protocol):
    """The columns of a minibatch that the loss reads."""

    @property
    def log_probs(self) -> Tensor:
        """Log-probabilities under the policy that acted, `[B]`."""

    @property
    def values(self) -> Tensor:
        """Value estimates at the time of acting, `[B]`."""

    @property
    def advantages(self) -> Tensor:
        """Advantage estimates of the actions, `[B]`."""

    @property
    def returns(self) -> Tensor:
        """Targets of the value function, `[B]`."""


P = TypeVar("P", bound=nn.Module)
M = TypeVar("M", bound=ClippedMinibatch)


class ClippedLearnerBase(PPOLearnerMixin, PolicyLearner[P]):
    """A policy with its optimizer and loss, their schedules, and the metrics of an update."""

    def __init__(self, policy: P, config: PPOConfig, streams: Streams) -> None:
        self.adam = Adam(policy, config.initial("learning_rate"))
        super().__init__(policy, self.adam)
        self.config = config
        self.streams = streams
        self.loss: PPOLoss = PPOLoss(
            config.initial("clip_eps"),
            config.vf_coef,
            config.initial("ent_coef"),
            config.max_grad_norm,
            config.clip_vloss,
        )


class ClippedLearner(ClippedLearnerBase[P], ABC, Generic[P, M]):
    """Learns from each rollout in `n_epochs` passes of shuffled minibatches.

    Subclasses define the minibatches and how the policy evaluates them.
    """

    @torch.enable_grad()
    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; schedules are evaluated once, at the clock of the update's start."""
        self._apply_schedules(clock)
        step_metrics: list[Tensor] = []
        epochs = samples = 0
        for epoch in range(self.config.n_epochs):
            n_rows, is_complete = self._run_epoch(batch, epoch, step_metrics)
            samples += n_rows
            epochs += is_complete
            if not is_complete:
                break
        means, label = {}, update_label(batch.index, len(batch), clock)
        if step_metrics:
            table = torch.stack(step_metrics)
            require_finite(table, METRIC_NAMES, label)
            means = dict(zip(METRIC_NAMES, table.mean(0).tolist(), strict=True))
        rows = batch.rows()
        metrics = self._metrics(explained_variance(rows.values, rows.returns), means, epochs)
        require_finite_parameters(self.policy, self.optimizer.vector, label)
        return Update(metrics, count=1, samples=samples)

    @abstractmethod
    def _minibatches(self, batch: Rollout, order: Callable[[int], Tensor]) -> Iterator[M]:
        """Yield disjoint minibatches that cover every valid row once; `order(n)` returns a permutation."""

    @abstractmethod
    def _evaluate(self, minibatch: M) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the policy's log-probabilities, entropies and values for a minibatch, with gradients."""

    def _permutation(self, index: int, epoch: int, count: int) -> Tensor:
        return torch.from_numpy(self._minibatch_order(index, epoch, count))

    def _run_epoch(self, batch: Rollout, epoch: int, step_metrics: list[Tensor]) -> tuple[int, bool]:
        """Run one epoch, append to `step_metrics`, and return its row count and whether it was completed.

        The shuffled copy of the rollout is freed at the end of the epoch, before the next one makes its own.
        """
        samples = 0
        for minibatch in self._minibatches(batch, partial(self._permutation, batch.index, epoch)):
            row = self._step(minibatch)
            if row is None:
                return samples, False
            step_metrics.append(row)
            samples += len(minibatch.returns)
        return samples, True

    def _step(self, minibatch: M) -> Tensor | None:
        """Take one gradient step and return its metrics; past 1.5 * `target_kl` take none and return None.

        The graph of the loss is freed before that of the next minibatch is built.
        """
        terms = self._terms(minibatch)
        if self._is_past_target_kl(terms):
            return None
        norm = self.optimizer.minimize(terms.total, self.config.max_grad_norm)
        return torch.stack([*terms[1:], terms.total.detach(), norm])

    def _terms(self, minibatch: M) -> PPOTerms:
        """Compute the loss, which is minimised, and its terms."""
        log_probs, entropy, values = self._evaluate(minibatch)
        return self.loss.terms(
            log_probs,
            entropy,
            values,
            minibatch.log_probs,
            self._advantages(minibatch),
            minibatch.returns,
            minibatch.values,
        )

    def _advantages(self, minibatch: M) -> Tensor:
        """Return the advantages, standardised within the minibatch if configured, `[B]`."""
        advantages = minibatch.advantages
        return standardize(advantages) if self.config.normalize_advantages else advantages

    def _is_past_target_kl(self, terms: PPOTerms) -> bool:
        target = self.config.target_kl
        return target is not None and float(terms.approx_kl) > 1.5 * target


class PPOLearner(ClippedLearner[ActorCritic, Minibatch]):
    """PPO's update on minibatches of single rows, which a policy without memory evaluates independently."""

    def _minibatches(self, batch: Rollout, order: Callable[[int], Tensor]) -> Iterator[Minibatch]:
        return batch.minibatches(batch.ordered_indices(order), self.config.batch_size)

    def _evaluate(self, minibatch: Minibatch) -> tuple[Tensor, Tensor, Tensor]:
        return evaluate_for_update(self.policy, minibatch.obs, minibatch.actions)
