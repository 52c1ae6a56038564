"""Sizes, weights and tokens for transformers' Llama and rlox's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

GOLDEN = Path(__file__).parent / "golden" / "llama.npz"
LENGTH = 40
IDS = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (3, LENGTH)))
PADDED = (0, 2, 3)  # padding tokens at the start of each row
_SIZE: dict[str, Any] = {
    "vocab_size": 11, "hidden_size": 64, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64, "rms_norm_eps": 1e-3,
}  # fmt: skip
SIZES = (_SIZE, {**_SIZE, "num_key_value_heads": 2, "tie_word_embeddings": True})


def weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Draw weights with these names and shapes, large enough that each one affects the outputs."""
    rng = np.random.default_rng(1)
    found = {
        name: torch.from_numpy(0.2 * rng.standard_normal(tuple(state[name].shape))).float()
        for name in sorted(state)
    }
    if torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"]):
        found["lm_head.weight"] = found["model.embed_tokens.weight"]
    return found


def padding() -> tuple[Tensor, Tensor]:
    """Return the mask of tokens that are not padding, and the positions counted from the first of them."""
    mask = (torch.arange(LENGTH) >= torch.tensor(PADDED).unsqueeze(1)).long()
    return mask, (mask.cumsum(1) - 1).clamp(min=0)
