"""The loss of RLOO for language models (Ahmadian et al. 2024, arXiv:2402.14740)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlox.errors import ShapeError
from rlox.losses.policy import clipped_surrogate

__all__ = ["rloo_loss"]


def rloo_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, clip_eps: float
) -> Tensor:
    """Compute PPO's clipped surrogate with completions as actions, whose ratios are products over tokens.

    Log-probabilities and `mask` of the tokens that count are `[B, T]`, advantages of completions `[B]`;
    returns a scalar.
    """
    is_same_shape = log_probs.dim() == 2 and log_probs.shape == old_log_probs.shape == mask.shape
    if not is_same_shape or advantages.shape != log_probs.shape[:1]:
        raise ShapeError(
            f"log-probabilities {list(log_probs.shape)} and {list(old_log_probs.shape)}, mask "
            f"{list(mask.shape)}, advantages {list(advantages.shape)}: expected [B, T], [B, T] and [B]"
        )
    log_ratio = torch.where(mask.bool(), log_probs - old_log_probs, 0.0).sum(-1)
    return clipped_surrogate(log_ratio, advantages, clip_eps)
