"""Sequences side by side in rows, each seeing itself alone: no padding to compute where lengths differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rlox._core import pack_tokens

__all__ = ["Packed", "packed"]


@dataclass(frozen=True)
class Packed:
    """Some sequences in R rows of L tokens, as `rlox.pack_tokens` lays them out."""

    ids: Tensor  # int64 [R, L], 0 where there is no token
    positions: Tensor  # int64 [R, L], from 0 in each sequence
    seen: Tensor  # bool [R, L, L], which tokens each sees: those of its sequence up to itself
    rows: Tensor  # int64 [B], the row that each sequence is in
    begins: Tensor  # int64 [B], the column of its first token

    def shared(self) -> list[int]:
        """The sequences of the first row that has several; none if each has its own."""
        counts = torch.bincount(self.rows, minlength=len(self.ids))
        if int(counts.max()) < 2:
            return []
        found: list[int] = torch.nonzero(self.rows == int(counts.argmax())).flatten().tolist()
        return found


def packed(sequences: Sequence[Tensor]) -> Packed:
    """Lay sequences of tokens `[length]` out in rows as long as the longest, first-fit-decreasing."""
    longest = max(len(sequence) for sequence in sequences)
    laid = pack_tokens([sequence.numpy() for sequence in sequences], longest)
    whose, positions = laid["packed"], laid["positions"]
    rows, columns = np.nonzero((positions == 0) & (whose >= 0))
    order = np.argsort(whose[rows, columns])
    of = torch.from_numpy(whose)
    causal = torch.ones(longest, longest, dtype=torch.bool).tril()
    return Packed(
        ids=torch.from_numpy(laid["tokens"]),
        positions=torch.from_numpy(positions),
        seen=(of.unsqueeze(2) == of.unsqueeze(1)) & causal,
        rows=torch.from_numpy(rows[order]),
        begins=torch.from_numpy(columns[order]),
    )
