"""Sizes and tokens that transformers' Llama and ours are asked with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

GOLDEN = Path(__file__).parent / "golden" / "llama.npz"
IDS = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3]])
PADDED = (0, 2, 3)  # tokens at the begin of each row that are padding
_SIZE: dict[str, Any] = {
    "vocab_size": 11, "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 16, "rms_norm_eps": 1e-6,
}  # fmt: skip
SIZES = (_SIZE, {**_SIZE, "num_key_value_heads": 1, "tie_word_embeddings": True})


def padding() -> tuple[Tensor, Tensor]:
    """A mask of what is no padding, and positions that are counted from there."""
    mask = (torch.arange(IDS.shape[1]) >= torch.tensor(PADDED).unsqueeze(1)).long()
    return mask, (mask.cumsum(1) - 1).clamp(min=0)
