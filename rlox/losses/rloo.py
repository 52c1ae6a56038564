"""What RLOO improves a language model by (Ahmadian et al. 2024, arXiv:2402.14740)."""

from __future__ import annotations

from torch import Tensor

from rlox.losses.policy import clipped_surrogate

__all__ = ["clipped_sequences"]


def clipped_sequences(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, mask: Tensor, clip_eps: float
) -> Tensor:
    """PPO's clipped surrogate with a completion as one action, whose ratio is the product of its tokens'.

    Log-probabilities and `mask` of the tokens that count `[B, T]`, advantages of completions `[B]` -> scalar.
    """
    log_ratio = ((log_probs - old_log_probs) * mask).sum(-1)
    return clipped_surrogate(log_ratio, advantages, clip_eps)
