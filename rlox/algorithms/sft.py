"""SFT: supervised fine-tuning, which maximises the likelihood of right answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.algorithms.text.components import TextContext, build_text, build_text_context
from rlox.algorithms.text.facade import TextAlgorithm
from rlox.algorithms.text.learner import PartialLoss, TextLearner
from rlox.algorithms.text.objects import TEXT_OBJECTS
from rlox.configs import RunConfig, SFTConfig
from rlox.devices import to_device
from rlox.llm.batches import CompletionBatch, make_completion_batch
from rlox.llm.prompts import Prompt, parse_completions, parse_token_rows
from rlox.sources.text import AnswerSource, right_answers
from rlox.training.components import BuildContext, RunComponents
from rlox.types import Clock, Progress, Update

__all__ = ["SFT", "SFTLearner"]


class SFTLearner(TextLearner):
    """A model that takes one step per batch towards right answers."""

    def __init__(self, text: TextContext, config: SFTConfig) -> None:
        super().__init__(text, config, False, ("loss/policy",))

    def update(self, batch: CompletionBatch, clock: Clock) -> Update:
        """Take one step on the mean of -log pi over the tokens of all completions."""
        self.apply_schedules(clock)
        total = max(self.group.total(float(batch.counted_mask.sum())), 1.0)

        def partial_loss(rows_slice: slice) -> PartialLoss:
            completions = batch.slice_rows(rows_slice)
            return PartialLoss(self.loss(completions), weight=float(completions.counted_mask.sum()) / total)

        return self.build_update([self.accumulate_and_step(partial_loss, len(batch))], clock, len(batch))

    def loss(self, batch: CompletionBatch) -> Tensor:
        """Compute the cross-entropy per token, in nats; prompt tokens do not count."""
        return -self._token_log_probs(batch).sum() / batch.counted_mask.sum().clamp(min=1).item()

    @torch.no_grad()
    def score(self, prompts: list[Prompt]) -> tuple[NDArray[np.float64], list[int]]:
        """Return each answer's mean token log-probability in nats (minus its cross-entropy), and length."""
        batch = right_answers(prompts)
        token_counts = batch.counted_mask.sum(1)
        mean_log_probs = self._token_log_probs(batch).sum(1).cpu().double() / token_counts
        return mean_log_probs.numpy(), token_counts.tolist()

    def _token_log_probs(self, batch: CompletionBatch) -> Tensor:
        """Return the log-probabilities of the tokens that count, and 0 for others, `[B, T]`."""
        log_probs = self.log_probs(batch)  # 0 after the end
        return (
            log_probs if batch.loss_mask is None else log_probs * to_device(batch.loss_mask, log_probs.device)
        )


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of an SFT run, which learns from right answers."""
    algo, text = cast(SFTConfig, config.algo), build_text_context(config, context)
    source = AnswerSource(text.prompts, algo.batch_size, config.seed, text.group)
    learner = SFTLearner(text, algo)
    return build_text(text, source, learner, learner.score)


class SFT(TextAlgorithm):
    """Supervised fine-tuning of a language model."""

    name = "sft"
    object_arguments = TEXT_OBJECTS
    make = staticmethod(make)
    positional = (
        "model",
        "learning_rate",
        "batch_size",
        "reward_fn",
        "max_new_tokens",
        "callbacks",
        "logger",
    )

    def train_step(
        self, prompt: Tensor | Sequence[Tensor], completion: Tensor | Sequence[Tensor]
    ) -> dict[str, float]:
        """Take one step on completions `[B, C]` of prompts `[B, P]`, or rows of different lengths.

        Tokens of a completion after its first end token are not learned.
        """
        batch = make_completion_batch(
            parse_token_rows(prompt), parse_completions(completion, self._text.sampling.eos)
        )
        local_batch = batch.select(self._text.group.rows(len(batch)))
        return self._train_on(lambda _: (local_batch, Progress()), len(batch))

    @torch.no_grad()
    def loss(self, prompt: Tensor | Sequence[Tensor], completion: Tensor | Sequence[Tensor]) -> float:
        """Compute the cross-entropy per token, in nats; tokens after a completion's end do not count."""
        learner = cast(SFTLearner, self.learner)
        completions = parse_completions(completion, self._text.sampling.eos)
        return float(learner.loss(make_completion_batch(parse_token_rows(prompt), completions)))
