"""Losses of preference pairs of completions (DPO: Rafailov et al. 2023, arXiv:2305.18290)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rlox.errors import ConfigError, ShapeError
from rlox.losses.settings import require_numbers

__all__ = ["PREFERENCE_LOSSES", "CompletionLogProbs", "DPOLoss", "DPOTerms"]

PREFERENCE_LOSSES = ("sigmoid", "ipo", "hinge", "robust")


class CompletionLogProbs(NamedTuple):
    """Summed log-probabilities of completions, and their lengths; each `[B]`."""

    log_probs: Tensor
    ref_log_probs: Tensor  # of the reference; 0 without one
    lengths: Tensor  # number of tokens, the divisor in ipo


class DPOTerms(NamedTuple):
    """The loss of one batch and its metrics; scalars, `total` with gradient."""

    total: Tensor
    accuracy: Tensor  # fraction of pairs whose chosen completion has the greater reward
    chosen: Tensor  # mean of beta (log pi - log ref), the implicit reward
    rejected: Tensor

    @property
    def margin(self) -> Tensor:
        """Mean reward of the chosen minus mean reward of the rejected completions."""
        return self.chosen - self.rejected


@dataclass(frozen=True)
class DPOLoss:
    """The loss of pairs, with z = beta ((log pi - log ref)(chosen) - (log pi - log ref)(rejected)).

    With e = `label_smoothing`:

    - sigmoid: -(1 - e) log s(z) - e log s(-z) (Mitchell 2023, "cDPO"; e = 0: Rafailov et al.)
    - robust: (-(1 - e) log s(z) + e log s(-z)) / (1 - 2 e) (Chowdhury et al. 2024, arXiv:2403.00409)
    - hinge: max(0, 1 - z) (Liu et al. 2023, "RSO", arXiv:2309.06657)
    - ipo: (h - 1 / (2 beta))^2, h the difference of means over tokens (Azar et al. 2023, arXiv:2310.12036,
      eq. 17, with means instead of sums, as its authors do)

    Parameters
    ----------
    loss_type : one of `PREFERENCE_LOSSES`
    beta : strength of the penalty for moving away from the reference
    label_smoothing : assumed fraction of pairs with swapped labels, in [0, 0.5); for sigmoid and robust
    """

    loss_type: str = "sigmoid"
    beta: float = 0.1
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if self.loss_type not in PREFERENCE_LOSSES:
            choices = ", ".join(PREFERENCE_LOSSES)
            raise ConfigError(f"loss_type={self.loss_type}, expected one of {choices}")
        require_numbers(beta=self.beta, label_smoothing=self.label_smoothing)
        if not 0.0 < self.beta < torch.inf:
            raise ConfigError(f"beta={self.beta}, expected a number > 0")
        if not 0.0 <= self.label_smoothing < 0.5:
            raise ConfigError(f"label_smoothing={self.label_smoothing}, expected a number in [0, 0.5)")
        if self.label_smoothing and self.loss_type not in ("sigmoid", "robust"):
            raise ConfigError(
                f"label_smoothing={self.label_smoothing} applies to sigmoid and robust, not to "
                f"loss_type={self.loss_type}; leave it out"
            )

    def __call__(self, chosen: CompletionLogProbs, rejected: CompletionLogProbs) -> DPOTerms:
        """Compute the mean loss over pairs; `ShapeError` unless all inputs have the same shape `[B]`."""
        shapes = [list(values.shape) for pair in (chosen, rejected) for values in pair]
        if any(len(shape) != 1 or shape != shapes[0] for shape in shapes):
            raise ShapeError(
                "log-probabilities, those of the reference and lengths, of chosen and then of rejected, have "
                f"shapes {shapes}: expected the same shape [B] for all"
            )
        log_ratios = [values.log_probs - values.ref_log_probs for values in (chosen, rejected)]
        with torch.no_grad():
            rewards = [self.beta * values for values in log_ratios]
            is_correct = (rewards[0] > rewards[1]).to(rewards[0])
        if self.loss_type == "ipo":
            mean = [
                values / pair.lengths.clamp(min=1)
                for values, pair in zip(log_ratios, (chosen, rejected), strict=True)
            ]
            pair_losses = (mean[0] - mean[1] - 0.5 / self.beta).square()
        else:
            pair_losses = self._pair_losses(self.beta * (log_ratios[0] - log_ratios[1]))
        return DPOTerms(pair_losses.mean(), is_correct.mean(), rewards[0].mean(), rewards[1].mean())

    def _pair_losses(self, z: Tensor) -> Tensor:
        if self.loss_type == "hinge":
            return (1.0 - z).relu()
        e, loss_if_right, loss_if_flipped = self.label_smoothing, -logsigmoid(z), -logsigmoid(-z)
        if self.loss_type == "sigmoid":
            return loss_if_right if e == 0.0 else (1.0 - e) * loss_if_right + e * loss_if_flipped
        return ((1.0 - e) * loss_if_right - e * loss_if_flipped) / (1.0 - 2.0 * e)
