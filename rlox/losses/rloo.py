"""What RLOO improves a language model by (Ahmadian et al. 2024, arXiv:2402.14740)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlox.errors import ShapeError
from rlox.losses.policy import clipped_surrogate

__all__ = ["rloo_loss"]


def rloo_loss(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, clip_eps: float
) -> Tensor:
    """PPO's clipped surrogate with a completion as one action, whose ratio is the product of its tokens'.

    Log-probabilities and `mask` of the tokens that count `[B, T]`, advantages of completions `[B]` -> scalar.
    """
    is_same_shape = log_probs.dim() == 2 and log_probs.shape == old_log_probs.shape == mask.shape
    if not is_same_shape or advantages.shape != log_probs.shape[:1]:
        raise ShapeError(
            f"log-probabilities {list(log_probs.shape)} and {list(old_log_probs.shape)}, mask "
            f"{list(mask.shape)}, advantages {list(advantages.shape)}: expected [B, T], [B, T] and [B]"
        )
    log_ratio = torch.where(mask.bool(), log_probs - old_log_probs, 0.0).sum(-1)
    return clipped_surrogate(log_ratio, advantages, clip_eps)
