"""GRPO: compares the completions of a prompt with each other (Shao et al. 2024, arXiv:2402.03300)."""

from __future__ import annotations

from typing import Any, cast

import torch
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
from rlox.configs import GRPOConfig, RunConfig
from rlox.devices import to_device
from rlox.llm import group_advantages
from rlox.llm.batches import GroupedCompletions
from rlox.losses import GRPOLoss, importance_weights
from rlox.training.components import BuildContext, RunComponents
from rlox.types import Clock, Update

__all__ = ["GRPO", "GRPOLearner"]

TOKEN_NORMALIZED = ("dapo", "bnpo", "cispo")  # other losses are means over completions, not tokens


class GRPOLearner(TextLearner):
    """A model that takes optimizer steps on batches of groups of completions."""

    def __init__(self, text: TextContext, config: GRPOConfig) -> None:
        names = (
            "loss/total",
            "loss/policy",
            "policy/kl",
            "policy/clip_low",
            "policy/clip_high",
            "policy/ratio",
        )
        super().__init__(text, config, config.kl_coef > 0.0, names)
        self.config = config
        self.loss = GRPOLoss(
            loss_type=config.loss_type,
            clip_eps=config.clip_eps,
            clip_eps_high=config.clip_eps_high,
            delta=config.delta,
            kl_coef=config.kl_coef,
            kl_estimator=config.kl_estimator,
            kl_correction=config.kl_correction,
        )

    def update(self, batch: GroupedCompletions, clock: Clock) -> Update:
        """Take the steps of one batch: `n_epochs` times `minibatches`."""
        config = self.config
        self.apply_schedules(clock)
        scale: Any = config.scale_rewards
        aggregation: Any = config.aggregation
        group_values = group_advantages(
            batch.rewards, batch.group_size, self.text.weights, scale, aggregation
        )
        advantages = torch.from_numpy(group_values[batch.local_rows])
        answers, mask = batch.completions, loss_mask(batch, config)
        device = self.optimizer.vector.device
        advantages, token_mask, sampled = (
            to_device(tensor, device) for tensor in (advantages, mask, batch.generated_tokens.log_probs)
        )
        old_log_probs = self._old_log_probs(batch)
        weights = None
        if config.correction is not None:
            assert old_log_probs is not None
            weights = importance_weights(
                old_log_probs, sampled, token_mask, config.correction, config.correction_max
            )
        ref_log_probs = self.reference_log_probs(answers, config.temperature)
        columns = [advantages, token_mask, old_log_probs, ref_log_probs, weights]
        rows = [
            self._step(batch, rows_slice, *(None if c is None else c[rows_slice] for c in columns))
            for rows_slice in minibatch_slices(config, len(batch))
        ]
        metrics = completion_metrics(batch) | group_metrics(batch, self.text.weights)
        return self.build_update(rows, clock, len(batch) // batch.group_size, metrics)

    def _old_log_probs(self, batch: GroupedCompletions) -> Tensor | None:
        """Return the model's log-probabilities before its steps; None if the only step computes them."""
        config = self.config
        if config.n_epochs * config.minibatches == 1 and config.correction is None:
            return None
        return self.old_log_probs(batch.completions, config.temperature)

    def _step(
        self, batch: GroupedCompletions, rows_slice: slice, advantages: Any, mask: Any, *token_columns: Any
    ) -> Tensor:
        answers, config = batch.completions.slice_rows(rows_slice), self.config
        # reading a count waits for the GPU, so tokens are counted only if the batch has several parts
        is_shared = self.group.size > 1 or config.accumulate > 1
        n_tokens = max(self.group.total(float(mask.sum())), 1.0) if is_shared else 1.0
        n_completions = self.group.size * len(mask)

        def partial_loss(rows: slice) -> PartialLoss:
            old_log_probs, ref_log_probs, weights = (
                None if column is None else column[rows] for column in token_columns
            )
            log_probs, token_mask = self.log_probs(answers.slice_rows(rows), config.temperature), mask[rows]
            terms = self.loss(
                log_probs,
                old_log_probs,
                advantages[rows],
                token_mask,
                ref_log_probs,
                weights,
                max_length=self.text.sampling.max_new_tokens,
            )
            with torch.no_grad():
                log_ratio = (
                    torch.zeros_like(log_probs) if old_log_probs is None else log_probs - old_log_probs
                )
                ratio = (log_ratio.exp() * token_mask).sum() / token_mask.sum().clamp(min=1)
            metrics = (terms.policy, terms.kl, terms.clip_low, terms.clip_high, ratio)
            token_share = float(token_mask.sum()) / n_tokens if is_shared else 1.0
            completion_share = len(token_mask) / n_completions
            share = token_share if config.loss_type in TOKEN_NORMALIZED else completion_share
            # gspo clips completions, not tokens
            clip_share = completion_share if config.loss_type == "gspo" else token_share
            return PartialLoss(
                terms.total, metrics, share, [share, token_share, clip_share, clip_share, token_share]
            )

        return self.accumulate_and_step(partial_loss, len(mask))


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a GRPO run, which learns from completions of its model."""
    algo, text = cast(GRPOConfig, config.algo), build_text_context(config, context)
    source = make_generation_source(config, text, algo.group_size)
    return build_text(text, source, GRPOLearner(text, algo))


class GRPO(GenerationAlgorithm):
    """Group relative policy optimization of a language model."""

    name = "grpo"
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
