"""SFT: supervised fine-tuning, the likelihood of right answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.algorithms.text import Text, text_of, text_parts
from rlox.algorithms.text_facade import Model, Rewarding, TextAlgorithm
from rlox.algorithms.torch_text import Part, TextLearner
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RunConfig, SFTConfig
from rlox.devices import moved
from rlox.llm.batches import Answers, answers_of
from rlox.llm.prompts import Prompt, completions_of, rows_of
from rlox.sources.text import AnswerSource, answers_to
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Progress, Update

__all__ = ["SFT", "SFTLearner"]


class SFTLearner(TextLearner):
    """A model, and a step of each batch towards right answers."""

    def __init__(self, text: Text, config: SFTConfig) -> None:
        super().__init__(text, config, False, ("loss/policy",))

    def update(self, batch: Answers, clock: Clock) -> Update:
        """One step: the mean of -log pi over the tokens of all completions."""
        self.anneal(clock)
        total = max(self.group.total(float(batch.counting.sum())), 1.0)

        def part(at: slice) -> Part:
            rows = batch.part(at)
            return Part(self.loss(rows), share=float(rows.counting.sum()) / total)

        return self.learned([self.stepped_by(part, len(batch))], clock, len(batch))

    def loss(self, batch: Answers) -> Tensor:
        """Cross-entropy of a token, in nats; no token of a prompt counts."""
        return -self._said(batch).sum() / batch.counting.sum().clamp(min=1).item()

    @torch.no_grad()
    def score(self, prompts: list[Prompt]) -> tuple[NDArray[np.float64], list[int]]:
        """The mean log-probability of a token of each answer, in nats: minus its cross-entropy."""
        batch = answers_to(prompts)
        tokens = batch.counting.sum(1)
        worth = self._said(batch).sum(1).cpu().double() / tokens
        return worth.numpy(), tokens.tolist()

    def _said(self, batch: Answers) -> Tensor:
        """Log-probabilities of the tokens that count, 0 of others, `[B, T]`."""
        said = self.said(batch)  # 0 behind an end
        return said if batch.learned is None else said * moved(batch.learned, said.device)


def make(config: RunConfig, tools: Tools) -> Parts:
    """SFT's learner on right answers."""
    algo, text = cast(SFTConfig, config.algo), text_of(config, tools)
    source = AnswerSource(text.prompts, algo.batch_size, config.seed, text.group)
    learner = SFTLearner(text, algo)
    return text_parts(text, source, learner, learner.score)


class SFT(TextAlgorithm):
    """Supervised fine-tuning of a language model.

    Parameters
    ----------
    model, task : as of `GRPO`
    learning_rate, batch_size : of each update
    reward_fn : what evaluations count, as of `GRPO`
    max_new_tokens : of a completion that is evaluated
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    seed : keys every random stream of the run
    **config_kwargs : any field of `SFTConfig`, `device`, or paths: `dataset` (not `task`), `eval_dataset`,
        `tokenizer`; unknown names are errors
    """

    name = "sft"
    objects = ()
    make = staticmethod(make)

    def __init__(
        self,
        model: Model = None,
        learning_rate: float = 1e-5,
        batch_size: int = 16,
        reward_fn: Rewarding = None,
        max_new_tokens: int | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        task: str | None = None,
        seed: int = 42,
        **config_kwargs: Any,
    ) -> None:
        options = {
            "learning_rate": learning_rate,
            "batch_size": batch_size,
            "max_new_tokens": max_new_tokens,
            **config_kwargs,
        }
        objects = (None, reward_fn)
        self._begin(model, task, seed, options, objects, logger, callbacks)

    def train_step(
        self, prompt: Tensor | Sequence[Tensor], completion: Tensor | Sequence[Tensor]
    ) -> dict[str, float]:
        """One step on completions `[B, C]` of prompts `[B, P]`, or rows of different lengths of both.

        Nothing is learned of the tokens behind the first end of a completion.
        """
        batch = answers_of(rows_of(prompt), completions_of(completion, self._text.sampling.eos))
        own = batch.rows(self._text.group.rows(len(batch)))
        return self._hand(lambda _: (own, Progress()), len(batch))

    @torch.no_grad()
    def loss(
        self, prompt: Tensor | Sequence[Tensor], completion: Tensor | Sequence[Tensor]
    ) -> float:
        """Cross-entropy of a token of these completions, in nats; tokens behind an end do not count."""
        learner = cast(SFTLearner, self.learner)
        completions = completions_of(completion, self._text.sampling.eos)
        return float(learner.loss(answers_of(rows_of(prompt), completions)))
