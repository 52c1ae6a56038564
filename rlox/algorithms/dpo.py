"""DPO: pairs of completions, of which one was chosen (Rafailov et al. 2023, arXiv:2305.18290)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.algorithms.text import Text, text_of, text_parts
from rlox.algorithms.text_facade import Model, Rewarding, TextAlgorithm
from rlox.algorithms.torch_text import Part, TextLearner
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import DPOConfig, RunConfig
from rlox.configs.dpo import OnlineDPOConfig
from rlox.devices import moved
from rlox.errors import ConfigError, ShapeError
from rlox.llm.batches import Answers, Pairs, answers_of
from rlox.llm.prompts import Prompt, completions_of, rows_of
from rlox.losses import Completions, DPOLoss, DPOTerms
from rlox.masked import MASKED, is_masked
from rlox.sources.text import PairSource, pairs_of
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Progress, Update

__all__ = ["DPO", "DPOLearner"]

Rows = Tensor | Sequence[Tensor]


class DPOLearner(TextLearner):
    """A model, and a step of each batch of pairs."""

    def __init__(self, text: Text, config: DPOConfig | OnlineDPOConfig) -> None:
        free = isinstance(config, DPOConfig) and config.reference_free
        smoothing = config.label_smoothing if isinstance(config, DPOConfig) else 0.0
        names = (
            "loss/policy",
            "reward/accuracy",
            "reward/chosen",
            "reward/rejected",
            "reward/margin",
        )
        super().__init__(text, config, not free, names)
        self.loss = DPOLoss(config.loss_type, config.beta, smoothing)

    def update(self, batch: Pairs, clock: Clock) -> Update:
        """One step, unless there is no pair."""
        self.anneal(clock)
        count = len(batch.chosen)
        total = self.group.total(count)
        if not total:
            return self.learned([], clock, batch.prompts)
        if not count:  # other processes have some
            return self.learned([self.stepped(None)], clock, batch.prompts)

        def part(at: slice) -> Part:
            pairs = batch.part(at)
            terms = self.terms(pairs)
            numbers = (terms.accuracy, terms.chosen, terms.rejected, terms.margin)
            return Part(terms.total, numbers, len(pairs.chosen) / total)

        return self.learned([self.stepped_by(part, count)], clock, batch.prompts)

    def terms(self, batch: Pairs, overwrite: bool = True) -> DPOTerms:
        """The loss of pairs, with gradient (taken once with `overwrite`), and what is told beside it."""
        both, count = _both(batch.chosen, batch.rejected), len(batch.chosen)
        said = self.said(both, overwrite=overwrite).sum(1)
        if batch.ref_log_probs is not None:
            ref = torch.cat([part.to(said) for part in batch.ref_log_probs])
        else:
            found = self.referred(both)
            ref = torch.zeros_like(said) if found is None else found.sum(1)
        lengths = moved(both.mask.sum(1), said.device).to(said.dtype)
        sides = [
            Completions(said[at], ref[at], lengths[at]) for at in (slice(count), slice(count, None))
        ]
        return self.loss(*sides)

    @torch.no_grad()
    def score(self, prompts: list[Prompt]) -> tuple[NDArray[np.float64], list[int]]:
        """1 of a pair whose chosen answer has become likelier than the rejected one, beside the reference."""
        assert self.text.prompts is not None
        pairs = pairs_of(self.text.prompts, prompts, np.arange(len(prompts)))
        both = _both(pairs.chosen, pairs.rejected)
        gain = self.said(both).sum(1)
        if (found := self.referred(both)) is not None:
            gain = gain - found.sum(1)
        chosen, rejected = gain.cpu().chunk(2)
        return (chosen > rejected).double().numpy(), pairs.chosen.mask.sum(1).tolist()

    def sums(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the chosen and the rejected completions by the reference, `[B]` each."""
        found = self.referred(_both(pairs.chosen, pairs.rejected))
        sums = torch.zeros(2 * len(pairs.chosen)) if found is None else found.sum(1).cpu()
        return sums[: len(pairs.chosen)], sums[len(pairs.chosen) :]


def _both(one: Answers, other: Answers) -> Answers:
    """One batch of both, so that the model is asked once."""
    width = max(one.tokens.shape[1], other.tokens.shape[1])

    def wide(of: Tensor) -> Tensor:
        return torch.nn.functional.pad(of, (0, width - of.shape[1]))

    return Answers(
        [*one.prompts, *other.prompts],
        torch.cat([wide(one.tokens), wide(other.tokens)]),
        torch.cat([wide(one.mask), wide(other.mask)]),
    )


def _same(pairs: Pairs) -> NDArray[np.bool_]:
    """Of which pairs both completions are the same tokens, `[B]`: their gradients cancel."""
    both, count = _both(pairs.chosen, pairs.rejected), len(pairs.chosen)
    equal = (both.tokens[:count] == both.tokens[count:]) & (both.mask[:count] == both.mask[count:])
    found: NDArray[np.bool_] = equal.all(1).numpy()
    return found


def make(config: RunConfig, tools: Tools) -> Parts:
    """DPO's learner on pairs."""
    algo, text = cast(DPOConfig, config.algo), text_of(config, tools)
    source = PairSource(text.prompts, algo.batch_size, config.seed, text.group)
    learner = DPOLearner(text, algo)
    return text_parts(text, source, learner, learner.score)


class DPO(TextAlgorithm):
    """Direct preference optimization of a language model.

    Parameters
    ----------
    model, task : as of `GRPO`; pairs of a task are its right answers and others that are near them
    ref_model : what the model is held to; None: the model as it begins
    beta : how much leaving the reference costs
    learning_rate : of Adam
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    reward_fn : what evaluations count, as of `GRPO`
    max_new_tokens : of a completion that is evaluated
    seed : keys every random stream of the run
    **config_kwargs : any field of `DPOConfig`, `device`, or paths: `dataset` (not `task`), `eval_dataset`,
        `tokenizer`; unknown names are errors
    """

    name = "dpo"
    make = staticmethod(make)

    def __init__(
        self,
        model: Model = None,
        ref_model: nn.Module | None = None,
        beta: float = 0.1,
        learning_rate: float = 1e-5,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        reward_fn: Rewarding = None,
        max_new_tokens: int | None = None,
        task: str | None = None,
        seed: int = 42,
        **config_kwargs: Any,
    ) -> None:
        options = {
            "beta": beta,
            "learning_rate": learning_rate,
            "max_new_tokens": max_new_tokens,
            **config_kwargs,
        }
        objects = (ref_model, reward_fn)
        self._begin(model, task, seed, options, objects, logger, callbacks)

    def compute_loss(
        self, prompt: Rows, chosen: Rows, rejected: Rows, ref_log_probs: Any = None
    ) -> tuple[Tensor, dict[str, float]]:
        """The loss of these pairs, with gradient, and its metrics; nothing is learned.

        Prompts `[B, P]`, chosen `[B, C]` and rejected `[B, R]` completions, or rows of different lengths, of
        which tokens behind the first end do not count; `ref_log_probs` two sums `[B]`, as
        `reference_log_probs` gives them.
        """
        pairs = _pairs(prompt, chosen, rejected, ref_log_probs, self._text.sampling.eos)
        terms = cast(DPOLearner, self.learner).terms(pairs, overwrite=False)
        metrics = {
            "loss": terms.total,
            "accuracy": terms.accuracy,
            "chosen_reward": terms.chosen,
            "rejected_reward": terms.rejected,
            "margin": terms.margin,
        }
        return terms.total, {name: float(value.detach()) for name, value in metrics.items()}

    def reference_log_probs(
        self, prompt: Rows, chosen: Rows, rejected: Rows
    ) -> tuple[Tensor, Tensor]:
        """Sums of log-probabilities by the reference, `[B]` each, which are the same all the time."""
        return cast(DPOLearner, self.learner).sums(
            _pairs(prompt, chosen, rejected, None, self._text.sampling.eos)
        )

    def train_step(
        self, prompt: Rows, chosen: Rows, rejected: Rows, ref_log_probs: Any = None
    ) -> dict[str, float]:
        """One step on these pairs, of shapes as for `compute_loss`; its metrics.

        Nothing is learned from a pair whose completions are the same: that is a warning, once, and a
        `ConfigError` where all pairs are such.
        """
        pairs = _pairs(prompt, chosen, rejected, ref_log_probs, self._text.sampling.eos)
        same = np.flatnonzero(_same(pairs))
        if len(same) == pairs.prompts:
            raise ConfigError(
                f"chosen and rejected are the same in all {len(same)} rows, so that nothing is learned; "
                "expected two completions of each prompt"
            )
        if len(same) and not getattr(self, "_told_same", False):
            self._told_same = True
            warnings.warn(
                f"chosen and rejected are the same in {len(same)} of {pairs.prompts} rows (the first is row "
                f"{same[0]}): nothing is learned from these; leave them out",
                UserWarning,
                stacklevel=2,
            )
        own = pairs.rows(self._text.group.rows(pairs.prompts))
        return self._hand(lambda _: (own, Progress()), pairs.prompts)


def _pairs(
    prompt: Rows, chosen: Rows, rejected: Rows, ref_log_probs: Any, ends: Sequence[int]
) -> Pairs:
    prompts = rows_of(prompt)
    sides = [answers_of(prompts, completions_of(rows, ends)) for rows in (chosen, rejected)]
    if ref_log_probs is not None:
        if any(map(is_masked, ref_log_probs)):
            raise ConfigError(f"ref_log_probs: {MASKED}")
        ref_log_probs = tuple(torch.as_tensor(part) for part in ref_log_probs)
        if [tuple(part.shape) for part in ref_log_probs] != [(len(prompts),)] * 2:
            told = [list(part.shape) for part in ref_log_probs]
            raise ShapeError(f"ref_log_probs {told}: expected two of [{len(prompts)}]")
    return Pairs(sides[0], sides[1], len(prompts), ref_log_probs)
