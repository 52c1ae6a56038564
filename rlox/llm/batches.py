"""What learners of text learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlox.errors import ShapeError
from rlox.llm.decoding import GeneratedTokens
from rlox.llm.prompts import Prompt

__all__ = ["CompletionBatch", "GroupedCompletions", "PreferencePairs", "make_completion_batch"]


@dataclass(frozen=True)
class CompletionBatch:
    """Completions of prompts, B of both; padding is behind a completion."""

    prompts: list[Tensor]  # int64 [P] each, of any lengths
    tokens: Tensor  # int64 [B, T]
    mask: Tensor  # bool [B, T], of tokens that there are
    loss_mask: Tensor | None = None  # bool [B, T], of those that are learned; None: all

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def completions(self) -> CompletionBatch:
        """These, as of other batches."""
        return self

    @property
    def counted_mask(self) -> Tensor:
        """The tokens that are learned, bool `[B, T]`."""
        return self.mask if self.loss_mask is None else self.loss_mask

    def select(self, indices: NDArray[np.int64]) -> CompletionBatch:
        """Some rows by their numbers."""
        index = torch.from_numpy(indices)
        loss_mask = None if self.loss_mask is None else self.loss_mask[index]
        prompts = [self.prompts[i] for i in indices]
        return CompletionBatch(prompts, self.tokens[index], self.mask[index], loss_mask)

    def slice_rows(self, rows: slice) -> CompletionBatch:
        """Some of the rows."""
        loss_mask = None if self.loss_mask is None else self.loss_mask[rows]
        return CompletionBatch(self.prompts[rows], self.tokens[rows], self.mask[rows], loss_mask)


@dataclass(frozen=True)
class PreferencePairs:
    """For each prompt a completion that was chosen, and one that was rejected."""

    chosen: CompletionBatch
    rejected: CompletionBatch
    n_prompts: int  # that they are of: some may have had no pair
    # sums of log-probabilities by the reference, of both, where they are known
    ref_log_probs: tuple[Tensor, Tensor] | None = None

    @property
    def completions(self) -> CompletionBatch:
        """Those that were chosen."""
        return self.chosen

    def select(self, indices: NDArray[np.int64]) -> PreferencePairs:
        """Some of the prompts, which have a pair each, by their numbers."""
        ref_log_probs = self.ref_log_probs
        if ref_log_probs is not None:
            ref_log_probs = (
                ref_log_probs[0][torch.from_numpy(indices)],
                ref_log_probs[1][torch.from_numpy(indices)],
            )
        return PreferencePairs(
            self.chosen.select(indices), self.rejected.select(indices), len(indices), ref_log_probs
        )

    def slice_rows(self, rows: slice) -> PreferencePairs:
        """Some of the pairs."""
        ref_log_probs = self.ref_log_probs
        if ref_log_probs is not None:
            ref_log_probs = (ref_log_probs[0][rows], ref_log_probs[1][rows])
        chosen = self.chosen.slice_rows(rows)
        return PreferencePairs(chosen, self.rejected.slice_rows(rows), len(chosen), ref_log_probs)


@dataclass(frozen=True)
class GroupedCompletions:
    """Groups of completions that were written, those of a prompt one after the other, B in all.

    Of what several processes wrote each has its own completions, and numbers of all, W of them.
    """

    prompts: list[Prompt]  # B
    generated_tokens: GeneratedTokens
    rewards: NDArray[np.float64]  # [W, F], of each function; NaN: none
    lengths: NDArray[np.float64]  # [W]
    has_ended: NDArray[np.float64]  # [W], 1 where there is an end
    local_rows: NDArray[np.int64]  # [B], which of the W are here
    group_size: int

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def completions(self) -> CompletionBatch:
        """Without what they are worth."""
        ids = [prompt.ids for prompt in self.prompts]
        return CompletionBatch(ids, self.generated_tokens.tokens, self.generated_tokens.mask)


def make_completion_batch(
    prompts: list[Tensor], completions: list[Tensor], loss_masks: list[Tensor] | None = None
) -> CompletionBatch:
    """Completions of any lengths as one batch; `loss_masks` says of each token whether it is."""
    if len(prompts) != len(completions):
        raise ShapeError(f"{len(prompts)} prompts and {len(completions)} completions, expected as many")
    tokens = pad_sequence(completions, batch_first=True)
    lengths = [len(row) for row in completions]
    mask = tokens.new_zeros(tokens.shape, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    loss_mask = None if loss_masks is None else pad_sequence(loss_masks, batch_first=True)
    return CompletionBatch(prompts, tokens, mask, loss_mask)
