"""GRPO: completions of a prompt beside each other (Shao et al. 2024, arXiv:2402.03300)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
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
from rlox.configs import GRPOConfig, RunConfig
from rlox.devices import moved
from rlox.llm import group_advantages
from rlox.llm.batches import Tokens
from rlox.llm.serving import GenerationServer
from rlox.losses import GRPOLoss, importance_weights
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Update

__all__ = ["GRPO", "GRPOLearner"]

BY_TOKENS = ("dapo", "bnpo", "cispo")  # whose loss is divided by tokens, others' by completions


class GRPOLearner(TextLearner):
    """A model, and the steps of each batch of groups."""

    def __init__(self, text: Text, config: GRPOConfig) -> None:
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

    def update(self, batch: Tokens, clock: Clock) -> Update:
        """The steps of one batch: `n_epochs` times `minibatches`."""
        config = self.config
        self.anneal(clock)
        scale: Any = config.scale_rewards
        aggregation: Any = config.aggregation
        found = group_advantages(
            batch.rewards, batch.group_size, self.text.weights, scale, aggregation
        )
        advantages = torch.from_numpy(found[batch.own])
        answers, mask = batch.answers, counting_mask(batch, config)
        device = self.optimizer.vector.device
        advantages, counts, sampled = (
            moved(of, device) for of in (advantages, mask, batch.written.log_probs)
        )
        old = self._old(batch)
        weights = None
        if config.correction is not None:
            assert old is not None
            weights = importance_weights(
                old, sampled, counts, config.correction, config.correction_max
            )
        ref = self.referred(answers, config.temperature)
        columns = [advantages, counts, old, ref, weights]
        rows = [
            self._step(batch, at, *(None if c is None else c[at] for c in columns))
            for at in parts_of(config, len(batch))
        ]
        told = of_completions(batch) | of_groups(batch, self.text.weights)
        return self.learned(rows, clock, len(batch) // batch.group_size, told)

    def _old(self, batch: Tokens) -> Tensor | None:
        """Log-probabilities by the model before its steps; None where the only step has them anyway."""
        config = self.config
        if config.n_epochs * config.minibatches == 1 and config.correction is None:
            return None
        return self.said_before(batch.answers, config.temperature)

    def _step(self, batch: Tokens, at: slice, advantages: Any, mask: Any, *known: Any) -> Tensor:
        answers, config = batch.answers.part(at), self.config
        # a device is waited for only where there are others to count
        shared = self.group.size > 1 or config.accumulate > 1
        tokens = max(self.group.total(float(mask.sum())), 1.0) if shared else 1.0
        completions = self.group.size * len(mask)

        def part(rows: slice) -> Part:
            old, ref, weights = (None if of is None else of[rows] for of in known)
            said, counts = self.said(answers.part(rows), config.temperature), mask[rows]
            terms = self.loss(
                said,
                old,
                advantages[rows],
                counts,
                ref,
                weights,
                max_length=self.text.sampling.max_new_tokens,
            )
            with torch.no_grad():
                apart = torch.zeros_like(said) if old is None else said - old
                ratio = (apart.exp() * counts).sum() / counts.sum().clamp(min=1)
            numbers = (terms.policy, terms.kl, terms.clip_low, terms.clip_high, ratio)
            of_tokens = float(counts.sum()) / tokens if shared else 1.0
            of_completions = len(counts) / completions
            share = of_tokens if config.loss_type in BY_TOKENS else of_completions
            # gspo's are of completions
            clipped = of_completions if config.loss_type == "gspo" else of_tokens
            return Part(
                terms.total, numbers, share, [share, of_tokens, clipped, clipped, of_tokens]
            )

        return self.stepped_by(part, len(mask))


def make(config: RunConfig, tools: Tools) -> Parts:
    """GRPO's learner on what its model writes."""
    algo, text = cast(GRPOConfig, config.algo), text_of(config, tools)
    source = writing_source(config, text, algo.group_size)
    return text_parts(text, source, GRPOLearner(text, algo))


class GRPO(WritingAlgorithm):
    """Group relative policy optimization of a language model.

    Parameters
    ----------
    model : a module whose `forward(input_ids)` returns logits `[B, L, V]`, or what has them as `.logits`;
        `"tiny"` or the folder of a model with a `task`
    ref_model : what KL is taken to; None: the model as it begins
    reward_fn : `(completions, prompts) -> rewards`, or several: completions are tensors of the tokens up to
        the end, `prompts` `[B, P]`, one of each (a list where lengths differ); parameters are filled by
        name, also with `texts` and columns of the dataset; None in a reward: none. Without one the task's
    group_size : completions of each prompt
    kl_coef : weight of the penalty; 0: without a reference
    learning_rate : of Adam
    max_new_tokens : of a completion; None: the longest answer of the task with its end, else 64
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    task : one of `rlox.llm.TASKS`
    server : that writes completions in the model's place, given the weights as they change; by its kind it
        is at `server_url`
    seed : keys every random stream of the run
    **config_kwargs : any field of `GRPOConfig`, `device`, or paths: `dataset` (not `task`), `eval_dataset`,
        `tokenizer`; unknown names are errors
    """

    name = "grpo"
    make = staticmethod(make)

    def __init__(
        self,
        model: Model = None,
        ref_model: nn.Module | None = None,
        reward_fn: Rewarding = None,
        group_size: int = 4,
        kl_coef: float = 0.1,
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
