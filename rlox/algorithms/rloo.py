"""RLOO: a completion beside the mean of the others (Ahmadian et al. 2024, arXiv:2402.14740)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.algorithms.text import Text, text_of, text_parts
from rlox.algorithms.text_facade import Model, Rewarding, WritingAlgorithm
from rlox.algorithms.torch_text import (
    Part,
    TextLearner,
    counting_mask,
    of_completions,
    of_groups,
    parts_of,
)
from rlox.algorithms.writing import writing_source
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import RLOOConfig, RunConfig
from rlox.devices import moved
from rlox.llm import leave_one_out_advantages
from rlox.llm.batches import Answers, Tokens
from rlox.llm.rewards import weighted_rewards
from rlox.llm.serving import GenerationServer
from rlox.losses import rloo_loss
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Update

__all__ = ["RLOO", "RLOOLearner"]


class RLOOLearner(TextLearner):
    """A model, and the steps of each batch of groups."""

    def __init__(self, text: Text, config: RLOOConfig) -> None:
        super().__init__(text, config, config.kl_coef > 0.0, ("loss/policy", "policy/ratio"))
        self.config = config

    def update(self, batch: Tokens, clock: Clock) -> Update:
        """The steps of one batch: `n_epochs` times `minibatches`."""
        config, answers = self.config, batch.answers
        self.anneal(clock)
        mask = moved(counting_mask(batch, config), self.optimizer.vector.device)
        steps = list(parts_of(config, len(batch)))
        first = None  # before the only step the model says what it says in it
        if len(steps) == config.accumulate == 1:
            first = self.said(answers, config.temperature)
            old = first.detach()
        else:
            old = self.said_before(answers, config.temperature)
        ref, kl = self.referred(answers, config.temperature), torch.zeros(len(batch))
        if ref is not None:
            kl = ((old - ref) * mask).sum(1).cpu()
        own = weighted_rewards(batch.rewards[batch.own], self.text.weights)
        advantages = moved(self._advantages(own - config.kl_coef * kl.numpy(), batch), old.device)
        drawn = old  # by those who drew the tokens; of an older model where a server has one
        if config.staleness:
            drawn = moved(batch.written.log_probs, old.device)
        rows = [
            self._step(answers.part(at), drawn[at], advantages[at], mask[at], first) for at in steps
        ]
        told = of_completions(batch) | of_groups(batch, self.text.weights)
        if ref is not None:
            tokens = self.group.total(float(mask.sum()))
            told["policy/kl"] = self.group.total(float(kl.sum())) / max(tokens, 1.0)  # of a token
        return self.learned(rows, clock, len(batch) // batch.group_size, told)

    def _step(
        self,
        answers: Answers,
        drawn: Tensor,
        advantages: Tensor,
        mask: Tensor,
        first: Tensor | None,
    ) -> Tensor:
        def part(at: slice) -> Part:
            said = self.said(answers.part(at), self.config.temperature) if first is None else first
            loss = rloo_loss(said, drawn[at], advantages[at], mask[at], self.config.clip_eps)
            ratio = self._ratio(said.detach() - drawn[at], mask[at])
            return Part(loss, (ratio,), len(said) / (self.group.size * len(mask)))

        return self.stepped_by(part, len(mask))

    def _advantages(self, worth: NDArray[np.float64], batch: Tokens) -> Tensor:
        """Of this process's completions, by what all are worth."""
        size, parts = batch.group_size, self.config.minibatches
        whole = self.group.gathered(worth.reshape(-1, size), parts).ravel()
        found = leave_one_out_advantages(whole, size)
        if self.config.normalize_advantages:
            found = (found - found.mean()) / (found.std(ddof=1) + np.float32(1e-4))
        return torch.from_numpy(found[batch.own])

    @staticmethod
    def _ratio(apart: Tensor, mask: Tensor) -> Tensor:
        """Mean over completions of how much likelier they are than before the steps."""
        return (apart * mask).sum(1).exp().mean()


def make(config: RunConfig, tools: Tools) -> Parts:
    """RLOO's learner on what its model writes."""
    algo, text = cast(RLOOConfig, config.algo), text_of(config, tools)
    source = writing_source(config, text, algo.group_size)
    return text_parts(text, source, RLOOLearner(text, algo))


class RLOO(WritingAlgorithm):
    """REINFORCE leave-one-out of a language model.

    Parameters
    ----------
    model, ref_model, reward_fn, group_size, learning_rate, max_new_tokens, task : as of `GRPO`
    kl_coef : what a reward loses for each nat that a completion is likelier than at the reference
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    server : that writes completions in the model's place, given the weights as they change; by its kind it
        is at `server_url`
    seed : keys every random stream of the run
    **config_kwargs : any field of `RLOOConfig`, `device`, or paths: `dataset` (not `task`), `eval_dataset`,
        `tokenizer`; unknown names are errors
    """

    name = "rloo"
    make = staticmethod(make)

    def __init__(
        self,
        model: Model = None,
        ref_model: nn.Module | None = None,
        reward_fn: Rewarding = None,
        group_size: int = 4,
        kl_coef: float = 0.05,
        learning_rate: float = 1e-5,
        max_new_tokens: int | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        task: str | None = None,
        server: GenerationServer | str | None = None,
        seed: int = 42,
        **config_kwargs: Any,
    ) -> None:
        options = {
            "group_size": group_size,
            "kl_coef": kl_coef,
            "learning_rate": learning_rate,
            "max_new_tokens": max_new_tokens,
            **config_kwargs,
        }
        objects = (ref_model, reward_fn)
        self._begin(model, task, seed, options, objects, logger, callbacks, server)
