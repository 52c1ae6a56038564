"""A minimal language model, and a batch to learn from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rlox.algorithms import DPO, SFT

PROMPTS = torch.tensor([[3, 4, 5], [6, 3, 4], [7, 7, 3], [1, 2, 6]])
ANSWERS = [torch.tensor(row) for row in ([4, 4, 8], [8], [5, 4, 3, 2, 8], [3, 8])]
REJECTED = [torch.tensor(row) for row in ([7, 8], [6, 5, 8], [8], [1, 1, 1, 8])]
GENERATING: dict[str, Any] = {
    "max_new_tokens": 5,
    "eos_token_id": (8,),
    "learning_rate": 0.02,
    "seed": 3,
}


class TinyLM(nn.Module):
    """Computes the logits of the next of nine tokens from the last token alone."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(9, 9, generator=generator))

    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids]


def ended_reward(completions: list[Tensor], prompts: Tensor) -> list[float]:
    """Return a reward for each completion: 1 if its last token is 8, else 0."""
    return [float(completion[-1] == 8) for completion in completions]


def prefer_first(pairs: list[object], which: int = 0) -> list[int]:
    """Return the same preference for each pair."""
    return [which] * len(pairs)


def low_token_reward(completions: list[Tensor], prompts: Any) -> list[float | None]:
    """Return the share of tokens below 5 in each completion; `None` if it begins with 6."""
    return [None if int(c[0]) == 6 else float((c < 5).double().mean()) for c in completions]


def step(algorithm: Any) -> dict[str, float]:
    """Make one update of any algorithm from the batch."""
    if isinstance(algorithm, DPO):
        return algorithm.train_step(PROMPTS, ANSWERS, REJECTED)
    if isinstance(algorithm, SFT):
        return algorithm.train_step(PROMPTS, ANSWERS)
    return algorithm.train_step(PROMPTS)
