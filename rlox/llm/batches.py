"""What learners of text learn from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlox.errors import ShapeError
from rlox.llm.decoding import Completed
from rlox.llm.prompts import Prompt

__all__ = ["Answers", "Pairs", "Tokens", "answers_of"]


@dataclass(frozen=True)
class Answers:
    """Completions of prompts, B of both; padding is behind a completion."""

    prompts: list[Tensor]  # int64 [P] each, of any lengths
    tokens: Tensor  # int64 [B, T]
    mask: Tensor  # bool [B, T], of tokens that there are
    learned: Tensor | None = None  # bool [B, T], of those that are learned; None: all

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def answers(self) -> Answers:
        """These, as of other batches."""
        return self

    @property
    def counting(self) -> Tensor:
        """The tokens that are learned, bool `[B, T]`."""
        return self.mask if self.learned is None else self.learned

    def rows(self, at: NDArray[np.int64]) -> Answers:
        """Some rows by their numbers."""
        index = torch.from_numpy(at)
        learned = None if self.learned is None else self.learned[index]
        prompts = [self.prompts[i] for i in at]
        return Answers(prompts, self.tokens[index], self.mask[index], learned)

    def part(self, at: slice) -> Answers:
        """Some of the rows."""
        learned = None if self.learned is None else self.learned[at]
        return Answers(self.prompts[at], self.tokens[at], self.mask[at], learned)


@dataclass(frozen=True)
class Pairs:
    """For each prompt a completion that was chosen, and one that was rejected."""

    chosen: Answers
    rejected: Answers
    prompts: int  # that they are of: some may have had no pair
    # sums of log-probabilities by the reference, of both, where they are known
    ref_log_probs: tuple[Tensor, Tensor] | None = None

    @property
    def answers(self) -> Answers:
        """Those that were chosen."""
        return self.chosen

    def rows(self, at: NDArray[np.int64]) -> Pairs:
        """Some of the prompts, which have a pair each, by their numbers."""
        known = self.ref_log_probs
        if known is not None:
            known = (known[0][torch.from_numpy(at)], known[1][torch.from_numpy(at)])
        return Pairs(self.chosen.rows(at), self.rejected.rows(at), len(at), known)

    def part(self, at: slice) -> Pairs:
        """Some of the pairs."""
        known = self.ref_log_probs
        if known is not None:
            known = (known[0][at], known[1][at])
        chosen = self.chosen.part(at)
        return Pairs(chosen, self.rejected.part(at), len(chosen), known)


@dataclass(frozen=True)
class Tokens:
    """Groups of completions that were written, those of a prompt one after the other, B in all.

    Of what several processes wrote each has its own completions, and numbers of all, W of them.
    """

    prompts: list[Prompt]  # B
    written: Completed
    rewards: NDArray[np.float64]  # [W, F], of each function; NaN: none
    lengths: NDArray[np.float64]  # [W]
    ended: NDArray[np.float64]  # [W], 1 where there is an end
    own: NDArray[np.int64]  # [B], which of the W are here
    group_size: int

    def __len__(self) -> int:
        return len(self.prompts)

    @property
    def answers(self) -> Answers:
        """Without what they are worth."""
        ids = [prompt.ids for prompt in self.prompts]
        return Answers(ids, self.written.tokens, self.written.mask)


def answers_of(
    prompts: list[Tensor], completions: list[Tensor], learned: list[Tensor] | None = None
) -> Answers:
    """Completions of any lengths as one batch; `learned` says of each token whether it is."""
    if len(prompts) != len(completions):
        raise ShapeError(
            f"{len(prompts)} prompts and {len(completions)} completions, expected as many"
        )
    tokens = pad_sequence(completions, batch_first=True)
    lengths = [len(row) for row in completions]
    mask = tokens.new_zeros(tokens.shape, dtype=torch.bool)
    for row, length in enumerate(lengths):
        mask[row, :length] = True
    counting = None if learned is None else pad_sequence(learned, batch_first=True)
    return Answers(prompts, tokens, mask, counting)
