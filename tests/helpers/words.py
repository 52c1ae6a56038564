"""A language model as small as one can be."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Words(nn.Module):
    """Logits of the next of nine tokens by the last one alone."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(9, 9, generator=generator))

    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids]


def ended(completions: list[Tensor], prompts: Tensor) -> list[float]:
    """A reward: whether the last token of a completion is 8."""
    return [float(completion[-1] == 8) for completion in completions]


def preferred(pairs: list[object], which: int = 0) -> list[int]:
    """A preference: the same of each pair."""
    return [which] * len(pairs)
