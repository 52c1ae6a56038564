"""Batches of completions and preference pairs for learners of language models."""

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
    """B prompts with one completion each; completions are padded on the right."""

    prompts: list[Tensor]  # int64 [P] each, of any lengths
    tokens: Tensor  # int64 [B, T]
    mask: Tensor  # bool [B, T], False for padding
    loss_mask: Tensor | None = None  # bool [B, T], tokens that count in the loss; None: all

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def completions(self) -> CompletionBatch:
        """The batch itself, for a common interface with other batches."""
        return self

    @property
    def counted_mask(self) -> Tensor:
        """Mask of the tokens that count in the loss, bool `[B, T]`."""
        return self.mask if self.loss_mask is None else self.loss_mask

    def select(self, indices: NDArray[np.int64]) -> CompletionBatch:
        """Return the rows at `indices`."""
        index = torch.from_numpy(indices)
        loss_mask = None if self.loss_mask is None else self.loss_mask[index]
        prompts = [self.prompts[i] for i in indices]
        return CompletionBatch(prompts, self.tokens[index], self.mask[index], loss_mask)

    def slice_rows(self, rows: slice) -> CompletionBatch:
        """Return a slice of the rows."""
        loss_mask = None if self.loss_mask is None else self.loss_mask[rows]
        return CompletionBatch(self.prompts[rows], self.tokens[rows], self.mask[rows], loss_mask)


@dataclass(frozen=True)
class PreferencePairs:
    """A chosen and a rejected completion for each prompt."""

    chosen: CompletionBatch
    rejected: CompletionBatch
    n_prompts: int  # prompts in the batch, also those without a pair
    # sums of the reference model's log-probabilities of chosen and rejected, if known
    ref_log_probs: tuple[Tensor, Tensor] | None = None

    @property
    def completions(self) -> CompletionBatch:
        """The chosen completions."""
        return self.chosen

    def select(self, indices: NDArray[np.int64]) -> PreferencePairs:
        """Return the pairs at `indices`; each prompt has a pair."""
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
        """Return a slice of the pairs."""
        ref_log_probs = self.ref_log_probs
        if ref_log_probs is not None:
            ref_log_probs = (ref_log_probs[0][rows], ref_log_probs[1][rows])
        chosen = self.chosen.slice_rows(rows)
        return PreferencePairs(chosen, self.rejected.slice_rows(rows), len(chosen), ref_log_probs)


@dataclass(frozen=True)
class GroupedCompletions:
    """B generated completions in groups; those of a prompt are adjacent.

    With several processes, each has its own B completions, and the statistics of all W completions.
    """

    prompts: list[Prompt]  # B
    generated_tokens: GeneratedTokens
    rewards: NDArray[np.float64]  # [W, F], one column per function; NaN: no reward
    lengths: NDArray[np.float64]  # [W]
    has_ended: NDArray[np.float64]  # [W], 1 if an EOS token ended the completion
    local_rows: NDArray[np.int64]  # [B], indices of this process's completions among the W
    group_size: int

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def completions(self) -> CompletionBatch:
        """The completions without their rewards."""
        ids = [prompt.ids for prompt in self.prompts]
        return CompletionBatch(ids, self.generated_tokens.tokens, self.generated_tokens.mask)


def make_completion_batch(
    prompts: list[Tensor], completions: list[Tensor], loss_masks: list[Tensor] | None = None
) -> CompletionBatch:
    """Pad completions of any lengths to one batch; `loss_masks` mark the tokens that count in the loss."""
    if len(prompts) != len(completions):
        raise ShapeError(f"{len(prompts)} prompts and {len(completions)} completions, expected equal numbers")
    tokens = pad_sequence(completions, batch_first=True)
    lengths = [len(row) for row in completions]
    mask = tokens.new_zeros(tokens.shape, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    loss_mask = None if loss_masks is None else pad_sequence(loss_masks, batch_first=True)
    return CompletionBatch(prompts, tokens, mask, loss_mask)
