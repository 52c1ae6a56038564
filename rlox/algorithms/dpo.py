"""DPO: learns from pairs of a chosen and a rejected completion (Rafailov et al. 2023, arXiv:2305.18290)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.algorithms.text.components import TextContext, build_text, build_text_context
from rlox.algorithms.text.facade import TextAlgorithm
from rlox.algorithms.text.learner import PartialLoss, TextLearner
from rlox.configs import DPOConfig, RunConfig
from rlox.configs.dpo import OnlineDPOConfig
from rlox.devices import to_device
from rlox.errors import ConfigError, ShapeError
from rlox.llm.batches import CompletionBatch, PreferencePairs, make_completion_batch
from rlox.llm.prompts import Prompt, parse_completions, parse_token_rows
from rlox.losses import CompletionLogProbs, DPOLoss, DPOTerms
from rlox.masked_arrays import MASKED_MESSAGE, is_masked
from rlox.sources.text import PairSource, pairs_of
from rlox.training.components import BuildContext, RunComponents
from rlox.types import Clock, Progress, Update

__all__ = ["DPO", "DPOLearner"]

TokenRows = Tensor | Sequence[Tensor]


class DPOLearner(TextLearner):
    """A model that takes one optimizer step per batch of pairs."""

    def __init__(self, text: TextContext, config: DPOConfig | OnlineDPOConfig) -> None:
        is_reference_free = isinstance(config, DPOConfig) and config.reference_free
        smoothing = config.label_smoothing if isinstance(config, DPOConfig) else 0.0
        names = (
            "loss/policy",
            "reward/accuracy",
            "reward/chosen",
            "reward/rejected",
            "reward/margin",
        )
        super().__init__(text, config, not is_reference_free, names)
        self.loss = DPOLoss(config.loss_type, config.beta, smoothing)

    def update(self, batch: PreferencePairs, clock: Clock) -> Update:
        """Take one step, unless no process has a pair."""
        self.apply_schedules(clock)
        count = len(batch.chosen)
        total = self.group.total(count)
        if not total:
            return self.build_update([], clock, batch.n_prompts)
        if not count:  # other processes have pairs
            return self.build_update([self.step_on_loss(None)], clock, batch.n_prompts)

        def partial_loss(rows: slice) -> PartialLoss:
            pairs = batch.slice_rows(rows)
            terms = self.terms(pairs)
            metrics = (terms.accuracy, terms.chosen, terms.rejected, terms.margin)
            return PartialLoss(terms.total, metrics, len(pairs.chosen) / total)

        return self.build_update([self.accumulate_and_step(partial_loss, count)], clock, batch.n_prompts)

    def terms(self, batch: PreferencePairs, overwrite: bool = True) -> DPOTerms:
        """Compute the loss of pairs and its metrics; with `overwrite` its gradient can be taken only once."""
        both_sides, count = _concatenate(batch.chosen, batch.rejected), len(batch.chosen)
        log_probs = self.log_probs(both_sides, overwrite=overwrite).sum(1)
        if batch.ref_log_probs is not None:
            ref_log_probs = torch.cat([part.to(log_probs) for part in batch.ref_log_probs])
        else:
            ref_token_log_probs = self.reference_log_probs(both_sides)
            ref_log_probs = (
                torch.zeros_like(log_probs) if ref_token_log_probs is None else ref_token_log_probs.sum(1)
            )
        lengths = to_device(both_sides.mask.sum(1), log_probs.device).to(log_probs.dtype)
        sides = [
            CompletionLogProbs(log_probs[half], ref_log_probs[half], lengths[half])
            for half in (slice(count), slice(count, None))
        ]
        return self.loss(*sides)

    @torch.no_grad()
    def score(self, prompts: list[Prompt]) -> tuple[NDArray[np.float64], list[int]]:
        """Return 1 for each pair whose chosen answer has the greater log-ratio to the reference, else 0.

        The second result has the lengths of the chosen answers.
        """
        assert self.text.prompts is not None
        pairs = pairs_of(self.text.prompts, prompts, np.arange(len(prompts)))
        both_sides = _concatenate(pairs.chosen, pairs.rejected)
        log_ratio = self.log_probs(both_sides).sum(1)
        if (ref_log_probs := self.reference_log_probs(both_sides)) is not None:
            log_ratio = log_ratio - ref_log_probs.sum(1)
        chosen, rejected = log_ratio.cpu().chunk(2)
        return (chosen > rejected).double().numpy(), pairs.chosen.mask.sum(1).tolist()

    def reference_sums(self, pairs: PreferencePairs) -> tuple[Tensor, Tensor]:
        """Return the reference's log-probabilities of chosen and rejected completions, `[B]` each."""
        ref_log_probs = self.reference_log_probs(_concatenate(pairs.chosen, pairs.rejected))
        sums = torch.zeros(2 * len(pairs.chosen)) if ref_log_probs is None else ref_log_probs.sum(1).cpu()
        return sums[: len(pairs.chosen)], sums[len(pairs.chosen) :]


def _concatenate(first: CompletionBatch, second: CompletionBatch) -> CompletionBatch:
    """Concatenate both batches, so that one forward pass covers them."""
    width = max(first.tokens.shape[1], second.tokens.shape[1])

    def pad(tensor: Tensor) -> Tensor:
        return torch.nn.functional.pad(tensor, (0, width - tensor.shape[1]))

    return CompletionBatch(
        [*first.prompts, *second.prompts],
        torch.cat([pad(first.tokens), pad(second.tokens)]),
        torch.cat([pad(first.mask), pad(second.mask)]),
    )


def _equal_pair_mask(pairs: PreferencePairs) -> NDArray[np.bool_]:
    """Return a mask `[B]` of the pairs with two equal completions, whose gradients cancel."""
    both_sides, n_pairs = _concatenate(pairs.chosen, pairs.rejected), len(pairs.chosen)
    is_equal_token = (both_sides.tokens[:n_pairs] == both_sides.tokens[n_pairs:]) & (
        both_sides.mask[:n_pairs] == both_sides.mask[n_pairs:]
    )
    is_equal_pair: NDArray[np.bool_] = is_equal_token.all(1).numpy()
    return is_equal_pair


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a DPO run, which learns from pairs."""
    algo, text = cast(DPOConfig, config.algo), build_text_context(config, context)
    source = PairSource(text.prompts, algo.batch_size, config.seed, text.group)
    learner = DPOLearner(text, algo)
    return build_text(text, source, learner, learner.score)


class DPO(TextAlgorithm):
    """Direct preference optimization of a language model.

    The pairs of a task are its right answers and similar wrong ones.
    """

    name = "dpo"
    make = staticmethod(make)
    positional = ("model", "ref_model", "beta", "learning_rate", "callbacks", "logger")

    def compute_loss(
        self, prompt: TokenRows, chosen: TokenRows, rejected: TokenRows, ref_log_probs: Any = None
    ) -> tuple[Tensor, dict[str, float]]:
        """Compute the loss of these pairs, with gradient, and its metrics; the model is not changed.

        `prompt` is `[B, P]`, `chosen` `[B, C]` and `rejected` `[B, R]`, or each a sequence of rows of
        different lengths. Tokens of a completion after its first end token do not count. `ref_log_probs`
        are two sums `[B]`, as `reference_log_probs` returns them.
        """
        pairs = _make_pairs(prompt, chosen, rejected, ref_log_probs, self._text.sampling.eos)
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
        self, prompt: TokenRows, chosen: TokenRows, rejected: TokenRows
    ) -> tuple[Tensor, Tensor]:
        """Return the reference's summed log-probabilities, `[B]` each; training does not change them."""
        return cast(DPOLearner, self.learner).reference_sums(
            _make_pairs(prompt, chosen, rejected, None, self._text.sampling.eos)
        )

    def train_step(
        self, prompt: TokenRows, chosen: TokenRows, rejected: TokenRows, ref_log_probs: Any = None
    ) -> dict[str, float]:
        """Take one step on these pairs, with shapes as in `compute_loss`, and return its metrics.

        A pair of equal completions teaches nothing: the first call with such a pair warns. Raises
        `ConfigError` if all pairs are equal.
        """
        pairs = _make_pairs(prompt, chosen, rejected, ref_log_probs, self._text.sampling.eos)
        equal_rows = np.flatnonzero(_equal_pair_mask(pairs))
        if len(equal_rows) == pairs.n_prompts:
            raise ConfigError(
                f"chosen and rejected are the same in all {len(equal_rows)} rows, so there is nothing to "
                "learn; expected two different completions of each prompt"
            )
        if len(equal_rows) and not getattr(self, "_has_warned_equal_pairs", False):
            self._has_warned_equal_pairs = True
            warnings.warn(
                f"chosen and rejected are the same in {len(equal_rows)} of {pairs.n_prompts} rows (the first "
                f"is row {equal_rows[0]}): nothing is learned from these; leave them out",
                UserWarning,
                stacklevel=2,
            )
        local_pairs = pairs.select(self._text.group.rows(pairs.n_prompts))
        return self._train_on(lambda _: (local_pairs, Progress()), pairs.n_prompts)


def _make_pairs(
    prompt: TokenRows, chosen: TokenRows, rejected: TokenRows, ref_log_probs: Any, eos_ids: Sequence[int]
) -> PreferencePairs:
    prompts = parse_token_rows(prompt)
    batches = [
        make_completion_batch(prompts, parse_completions(rows, eos_ids)) for rows in (chosen, rejected)
    ]
    if ref_log_probs is not None:
        if any(map(is_masked, ref_log_probs)):
            raise ConfigError(f"ref_log_probs: {MASKED_MESSAGE}")
        ref_log_probs = tuple(torch.as_tensor(part) for part in ref_log_probs)
        if [tuple(part.shape) for part in ref_log_probs] != [(len(prompts),)] * 2:
            shapes = [list(part.shape) for part in ref_log_probs]
            raise ShapeError(f"ref_log_probs have shapes {shapes}, expected two of [{len(prompts)}]")
    return PreferencePairs(batches[0], batches[1], len(prompts), ref_log_probs)
