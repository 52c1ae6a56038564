"""What GRPO and its descendants improve a language model by, equal to TRL 1.16 where that has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlox.errors import ConfigError

__all__ = [
    "CORRECTIONS",
    "KL_ESTIMATORS",
    "LOSS_TYPES",
    "GRPOLoss",
    "GRPOTerms",
    "mismatch_weights",
]

LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo")
KL_ESTIMATORS = ("k1", "k2", "k3")
CORRECTIONS = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")


class GRPOTerms(NamedTuple):
    """The loss of one batch and what it is made of; scalars, `total` with gradient."""

    total: Tensor
    policy: Tensor  # without the penalty
    kl: Tensor  # mean over tokens; 0 without a reference
    clip_low: Tensor  # part of the tokens (gspo: completions) whose ratio is below the range and whose A < 0
    clip_high: Tensor  # above it, A > 0


@dataclass(frozen=True)
class GRPOLoss:
    """The clipped surrogate of tokens, and a penalty for leaving a reference.

    With r_t = pi(t) / pi_old(t), A the advantage of a completion, [.] what is clipped to
    [1 - clip_eps, 1 + clip_eps_high], a token's loss is -min(r_t A, [r_t] A) + kl_coef KL_t and the batch's

    ======== ================================================================= ====================
    type     of tokens t of completions i                                      source
    ======== ================================================================= ====================
    grpo     mean over i of the mean over t                                    arXiv:2402.03300
    dr_grpo  sum over all / (completions x `max_length`)                       arXiv:2503.20783
    dapo     sum over all / tokens of the whole batch of an optimizer's step   arXiv:2503.14476
    bnpo     mean over all t here                                              TRL
    gspo     grpo's, r_i = exp(mean over t of log r_t) in place of r_t         arXiv:2507.18071
    cispo    dapo's of -sg(min(r_t, 1 + clip_eps_high)) A log pi(t)            arXiv:2506.13585
    ======== ================================================================= ====================

    Parameters
    ----------
    loss_type : one of `LOSS_TYPES`
    clip_eps, clip_eps_high : the range of ratios; None: as far up as down
    delta : ratios above it count as it where A < 0, > 1 + clip_eps_high (arXiv:2505.07291)
    kl_coef : weight of the penalty
    kl_estimator : of KL(pi || ref), d = log ref - log pi: k1 -d, k2 d^2 / 2, k3 e^d - d - 1 (Schulman 2020)
    kl_correction : multiply it by the ratio, so that its gradient is KL's although others than pi drew the
        tokens (DeepSeek-V3.2, arXiv:2512.02556). That of k1 is nothing but noise without.
    """

    loss_type: str = "dapo"
    clip_eps: float = 0.2
    clip_eps_high: float | None = None
    delta: float | None = None
    kl_coef: float = 0.0
    kl_estimator: str = "k3"
    kl_correction: bool = True

    def __post_init__(self) -> None:
        if self.loss_type not in LOSS_TYPES:
            raise ConfigError(
                f"loss_type={self.loss_type}, expected one of {', '.join(LOSS_TYPES)}"
            )
        if self.kl_estimator not in KL_ESTIMATORS:
            known = ", ".join(KL_ESTIMATORS)
            raise ConfigError(f"kl_estimator={self.kl_estimator}, expected one of {known}")
        if self.kl_coef and self.kl_estimator == "k1" and not self.kl_correction:
            raise ConfigError(
                "kl_estimator=k1 with kl_correction=false: its gradient is that of log pi(t), 0 in the mean; "
                "expected kl_correction=true, k2 or k3"
            )

    def __call__(
        self,
        log_probs: Tensor,
        old_log_probs: Tensor | None,
        advantages: Tensor,
        mask: Tensor,
        ref_log_probs: Tensor | None = None,
        weights: Tensor | None = None,
        max_length: int | None = None,
        tokens: Tensor | float | None = None,
    ) -> GRPOTerms:
        """The loss of completions of different lengths.

        Parameters
        ----------
        log_probs : of each token, `[B, T]`, with gradient
        old_log_probs : those when it was generated, `[B, T]`; None: the same
        advantages : of each completion, `[B]`
        mask : of the tokens that count, `[B, T]`
        ref_log_probs : those of the reference, `[B, T]`; needed with `kl_coef`
        weights : of the policy's loss, `[B, T]` or `[B, 1]`, from `mismatch_weights`
        max_length : tokens that a completion may have; None: T
        tokens : dapo, cispo: of all parts of the batch of an optimizer's step; None: those here
        """
        mask = mask.to(log_probs.dtype)
        old = log_probs.detach() if old_log_probs is None else old_log_probs
        log_ratio = log_probs - old
        if self.loss_type == "gspo":
            log_ratio = ((log_ratio * mask).sum(-1) / _lengths(mask)).unsqueeze(-1)
        ratio, gains = log_ratio.exp(), advantages.unsqueeze(-1)
        each = self._policy(log_probs, ratio, gains)
        if weights is not None:
            each = each * weights
        policy, kl = each, log_probs.new_zeros(())
        if self.kl_coef:
            if ref_log_probs is None:
                raise ConfigError(f"kl_coef={self.kl_coef} needs log-probabilities of a reference")
            apart = self._kl(log_probs, ref_log_probs, ratio)
            each = each + self.kl_coef * apart
            kl = _mean(apart.detach(), mask)
        low, high = (part.to(mask.dtype) for part in self._clipped(ratio.detach(), gains))
        total = self._over(each, mask, max_length, tokens)
        with torch.no_grad():
            plain = self._over(policy, mask, max_length, tokens) if self.kl_coef else total.detach()
            return GRPOTerms(total, plain, kl, _mean(low, mask), _mean(high, mask))

    @property
    def _range(self) -> tuple[float, float]:
        high = self.clip_eps if self.clip_eps_high is None else self.clip_eps_high
        return 1.0 - self.clip_eps, 1.0 + high

    def _policy(self, log_probs: Tensor, ratio: Tensor, gains: Tensor) -> Tensor:
        """Each token's; of gspo each completion's, `[B, 1]`."""
        low, high = self._range
        if self.loss_type == "cispo":
            return -ratio.detach().clamp(max=high) * gains * log_probs
        clipped = ratio.clamp(low, high) * gains
        free = ratio if self.delta is None else ratio.clamp(max=self.delta)
        return -torch.min(free * gains, clipped)

    def _clipped(self, ratio: Tensor, gains: Tensor) -> tuple[Tensor, Tensor]:
        """Where the ratio has no gradient, below and above."""
        low, high = self._range
        if self.loss_type == "cispo":
            return torch.zeros_like(ratio), (ratio > high) & (gains > 0)
        return (ratio < low) & (gains < 0), (ratio > high) & (gains > 0)

    def _kl(self, log_probs: Tensor, ref_log_probs: Tensor, ratio: Tensor) -> Tensor:
        d = ref_log_probs - log_probs
        if self.kl_estimator == "k3":
            found = d.exp() - d - 1.0
        else:
            found = -d if self.kl_estimator == "k1" else 0.5 * d.square()
        return found * ratio if self.kl_correction else found

    def _over(
        self, each: Tensor, mask: Tensor, max_length: int | None, tokens: Tensor | float | None
    ) -> Tensor:
        """One number for the batch, `each` `[B, T]` or `[B, 1]`."""
        total = each * mask
        if self.loss_type in ("grpo", "gspo"):
            return (total.sum(-1) / _lengths(mask)).mean()
        if self.loss_type == "dr_grpo":
            return total.sum() / (len(mask) * (max_length or mask.shape[1]))
        if self.loss_type == "bnpo" or tokens is None:
            return total.sum() / mask.sum().clamp(min=1.0)
        return total.sum() / tokens


def mismatch_weights(
    log_probs: Tensor,
    sampled_log_probs: Tensor,
    mask: Tensor,
    correction: str,
    most: float = 3.0,
    least: float | None = None,
) -> Tensor:
    """Weights for tokens that another program drew than the one that learns (Yao et al. 2025).

    pi(t) / sampled(t) of each token `[B, T]`, or of each completion `[B, 1]`, the product over its tokens;
    what is outside [least, most] is clamped (`*_truncate`) or weighs nothing (`*_mask`). A log-probability
    that is not known, NaN, counts as equal.

    Parameters
    ----------
    log_probs : when the completions came, by the model that learns, `[B, T]`
    sampled_log_probs : by what drew them, `[B, T]`
    mask : of the tokens that count, `[B, T]`
    correction : one of `CORRECTIONS`
    most, least : of a weight; None: any
    """
    if correction not in CORRECTIONS:
        raise ConfigError(f"correction={correction}, expected one of {', '.join(CORRECTIONS)}")
    apart = ((log_probs - sampled_log_probs) * mask).nan_to_num(nan=0.0).detach()
    ratio = (apart.sum(-1, keepdim=True) if correction.startswith("sequence") else apart).exp()
    if correction.endswith("truncate"):
        return ratio.clamp(min=least, max=most)
    outside = ratio > most
    if least is not None:
        outside |= ratio < least
    return ratio.masked_fill(outside, 0.0)


def _lengths(mask: Tensor) -> Tensor:
    return mask.sum(-1).clamp(min=1.0)


def _mean(each: Tensor, mask: Tensor) -> Tensor:
    """Over tokens, of `[B, 1]` over completions."""
    if each.shape != mask.shape:
        return each.mean()
    return (each * mask).sum() / mask.sum().clamp(min=1.0)
