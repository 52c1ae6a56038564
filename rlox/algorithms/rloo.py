"""RLOO: compares a completion with the mean of the others (Ahmadian et al. 2024, arXiv:2402.14740)."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.algorithms.text.components import TextContext, build_text, build_text_context
from rlox.algorithms.text.facade import GenerationAlgorithm
from rlox.algorithms.text.generation import make_generation_source
from rlox.algorithms.text.learner import (
    PartialLoss,
    TextLearner,
    completion_metrics,
    group_metrics,
    loss_mask,
    minibatch_slices,
)
from rlox.configs import RLOOConfig, RunConfig
from rlox.devices import to_device
from rlox.llm import leave_one_out_advantages
from rlox.llm.advantages import weighted_rewards
from rlox.llm.batches import CompletionBatch, GroupedCompletions
from rlox.losses import rloo_loss
from rlox.training.components import BuildContext, RunComponents
from rlox.types import Clock, Update

__all__ = ["RLOO", "RLOOLearner"]


class RLOOLearner(TextLearner):
    """A model that takes optimizer steps on batches of groups of completions."""

    def __init__(self, text: TextContext, config: RLOOConfig) -> None:
        super().__init__(text, config, config.kl_coef > 0.0, ("loss/policy", "policy/ratio"))
        self.config = config

    def update(self, batch: GroupedCompletions, clock: Clock) -> Update:
        """Take the steps of one batch: `n_epochs` times `minibatches`."""
        config, answers = self.config, batch.completions
        self.apply_schedules(clock)
        mask = to_device(loss_mask(batch, config), self.optimizer.vector.device)
        steps = list(minibatch_slices(config, len(batch)))
        shared_log_probs = None  # a single step can share its forward pass
        if len(steps) == config.accumulate == 1:
            shared_log_probs = self.log_probs(answers, config.temperature)
            old_log_probs = shared_log_probs.detach()
        else:
            old_log_probs = self.old_log_probs(answers, config.temperature)
        ref_log_probs, kl = self.reference_log_probs(answers, config.temperature), torch.zeros(len(batch))
        if ref_log_probs is not None:
            kl = ((old_log_probs - ref_log_probs) * mask).sum(1).cpu()
        local_rewards = weighted_rewards(batch.rewards[batch.local_rows], self.text.weights)
        advantages = to_device(
            self._advantages(local_rewards - config.kl_coef * kl.numpy(), batch), old_log_probs.device
        )
        sampled_log_probs = (
            old_log_probs  # of the policy that sampled the tokens; with a server this may be an older model
        )
        if config.staleness:
            sampled_log_probs = to_device(batch.generated_tokens.log_probs, old_log_probs.device)
        rows = [
            self._step(
                answers.slice_rows(rows_slice),
                sampled_log_probs[rows_slice],
                advantages[rows_slice],
                mask[rows_slice],
                shared_log_probs,
            )
            for rows_slice in steps
        ]
        metrics = completion_metrics(batch) | group_metrics(batch, self.text.weights)
        if ref_log_probs is not None:
            tokens = self.group.total(float(mask.sum()))
            metrics["policy/kl"] = self.group.total(float(kl.sum())) / max(tokens, 1.0)  # per token
        return self.build_update(rows, clock, len(batch) // batch.group_size, metrics)

    def _step(
        self,
        answers: CompletionBatch,
        sampled_log_probs: Tensor,
        advantages: Tensor,
        mask: Tensor,
        shared_log_probs: Tensor | None,
    ) -> Tensor:
        def partial_loss(rows_slice: slice) -> PartialLoss:
            log_probs = (
                self.log_probs(answers.slice_rows(rows_slice), self.config.temperature)
                if shared_log_probs is None
                else shared_log_probs
            )
            loss = rloo_loss(
                log_probs,
                sampled_log_probs[rows_slice],
                advantages[rows_slice],
                mask[rows_slice],
                self.config.clip_eps,
            )
            ratio = self._ratio(log_probs.detach() - sampled_log_probs[rows_slice], mask[rows_slice])
            return PartialLoss(loss, (ratio,), len(log_probs) / (self.group.size * len(mask)))

        return self.accumulate_and_step(partial_loss, len(mask))

    def _advantages(self, rewards: NDArray[np.float64], batch: GroupedCompletions) -> Tensor:
        """Return the advantages of this process's completions, computed from the rewards of all processes."""
        size, n_parts = batch.group_size, self.config.minibatches
        all_rewards = self.group.gather_rows(rewards.reshape(-1, size), n_parts).ravel()
        advantages = leave_one_out_advantages(all_rewards, size)
        if self.config.normalize_advantages:
            advantages = (advantages - advantages.mean()) / (advantages.std(ddof=1) + np.float32(1e-4))
        return torch.from_numpy(advantages[batch.local_rows])

    @staticmethod
    def _ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
        """Return the mean ratio, over completions, of the probability now to that when they were sampled."""
        return (log_ratio * mask).sum(1).exp().mean()


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of an RLOO run, which learns from completions of its model."""
    algo, text = cast(RLOOConfig, config.algo), build_text_context(config, context)
    source = make_generation_source(config, text, algo.group_size)
    return build_text(text, source, RLOOLearner(text, algo))


class RLOO(GenerationAlgorithm):
    """REINFORCE leave-one-out for a language model."""

    name = "rloo"
    make = staticmethod(make)
    positional = (
        "model",
        "ref_model",
        "reward_fn",
        "group_size",
        "kl_coef",
        "learning_rate",
        "max_new_tokens",
        "callbacks",
        "logger",
    )
