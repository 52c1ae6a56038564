"""Losses of GRPO and its variants, and of RLOO, for language models.

Those of GRPO are equal to TRL 1.16's where TRL has them; RLOO: Ahmadian et al. 2024 (arXiv:2402.14740).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rlox.errors import ConfigError, ShapeError
from rlox.losses.actor_critic import clipped_surrogate
from rlox.losses.settings import require_numbers

__all__ = [
    "CORRECTIONS",
    "KL_ESTIMATORS",
    "LOSS_TYPES",
    "GRPOLoss",
    "GRPOTerms",
    "importance_weights",
    "rloo_loss",
]


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


LOSS_TYPES = ("grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo")
KL_ESTIMATORS = ("k1", "k2", "k3")
CORRECTIONS = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")


class GRPOTerms(NamedTuple):
    """The loss of one batch and its terms; scalars, `total` with gradient."""

    total: Tensor
    policy: Tensor  # without the penalty
    kl: Tensor  # mean over tokens; 0 without a reference
    clip_low: Tensor  # fraction of tokens (gspo: completions) with a ratio below the range and A < 0
    clip_high: Tensor  # the same with a ratio above the range and A > 0


@dataclass(frozen=True)
class GRPOLoss:
    """The clipped surrogate of tokens, with a KL penalty towards a reference.

    With r_t = pi(t) / pi_old(t), A the advantage of a completion and [.] clipping to
    [1 - clip_eps, 1 + clip_eps_high], a token's loss is -min(r_t A, [r_t] A) + kl_coef KL_t. With sg(x)
    for x without gradient, the loss of a batch, from tokens t of completions i, is

    ======== ================================================================= ====================
    type     loss                                                              source
    ======== ================================================================= ====================
    grpo     mean over i of the mean over t                                    arXiv:2402.03300
    dr_grpo  sum over all / (completions x `max_length`)                       arXiv:2503.20783
    dapo     sum over all / tokens of the whole batch of an optimizer's step   arXiv:2503.14476
    bnpo     mean over all t of this call                                      TRL
    gspo     as grpo, r_i = exp(mean over t of log r_t) in place of r_t        arXiv:2507.18071
    cispo    as dapo, of -sg(min(r_t, 1 + clip_eps_high)) A log pi(t)          arXiv:2506.13585
    ======== ================================================================= ====================

    Parameters
    ----------
    loss_type : one of `LOSS_TYPES`
    clip_eps, clip_eps_high : range of the ratios; clip_eps_high=None: symmetric
    delta : upper limit of ratios where A < 0, >= 1 + clip_eps_high (arXiv:2505.07291); None: no limit
    kl_coef : weight of the KL penalty
    kl_estimator : how KL(pi || ref) is estimated from d = log ref - log pi: k1 is -d, k2 is d^2 / 2, k3 is
        e^d - d - 1 (Schulman 2020)
    kl_correction : multiply the estimate by the ratio, so its gradient is that of KL although another policy
        sampled the tokens (DeepSeek-V3.2, arXiv:2512.02556). Without it the gradient of k1 is only noise.
    """

    loss_type: str = "dapo"
    clip_eps: float = 0.2
    clip_eps_high: float | None = None
    delta: float | None = None
    kl_coef: float = 0.0
    kl_estimator: str = "k3"
    kl_correction: bool = True

    def __post_init__(self) -> None:
        _require_numbers(self)
        if self.loss_type not in LOSS_TYPES:
            raise ConfigError(f"loss_type={self.loss_type}, expected one of {', '.join(LOSS_TYPES)}")
        if self.kl_estimator not in KL_ESTIMATORS:
            choices = ", ".join(KL_ESTIMATORS)
            raise ConfigError(f"kl_estimator={self.kl_estimator}, expected one of {choices}")
        if self.kl_coef and self.kl_estimator == "k1" and not self.kl_correction:
            raise ConfigError(
                "kl_estimator=k1 with kl_correction=false: its gradient is that of log pi(t), 0 on average; "
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
        """Compute the loss of completions of different lengths.

        Parameters
        ----------
        log_probs : log-probability of each token, `[B, T]`, with gradient
        old_log_probs : log-probabilities before the steps on the batch, `[B, T]`; None: equal to `log_probs`
        advantages : advantage of each completion, `[B]`
        mask : true for the tokens that count, `[B, T]`
        ref_log_probs : log-probabilities of the reference, `[B, T]`; needed with `kl_coef`
        weights : weights of the policy loss, `[B, T]` or `[B, 1]`, from `importance_weights`
        max_length : maximum number of tokens in a completion, >= T; needed by dr_grpo
        tokens : for dapo and cispo, token count over all parts of an optimizer step; None: that of this call
        """
        _require_shapes(log_probs, advantages, old_log_probs, mask, ref_log_probs, weights)
        if self.loss_type == "dr_grpo" and (max_length is None or max_length < mask.shape[1]):
            raise ConfigError(
                f"max_length={max_length}: dr_grpo divides by the maximum length of a completion, expected "
                f"at least {mask.shape[1]}, the length of these"
            )
        is_counted, mask = mask.bool(), mask.to(log_probs.dtype)
        # masked values may be anything, for example infinities, whose difference is NaN
        log_probs = torch.where(is_counted, log_probs, 0.0)
        old_masked = (
            log_probs.detach() if old_log_probs is None else torch.where(is_counted, old_log_probs, 0.0)
        )
        log_ratio = log_probs - old_masked
        if self.loss_type == "gspo":
            log_ratio = ((log_ratio * mask).sum(-1) / _lengths(mask)).unsqueeze(-1)
        ratio, token_advantages = log_ratio.exp(), advantages.unsqueeze(-1)
        token_losses = self._policy_losses(log_probs, ratio, token_advantages)
        if weights is not None:
            token_losses = token_losses * weights
        policy, kl = token_losses, log_probs.new_zeros(())
        if self.kl_coef:
            if ref_log_probs is None:
                raise ConfigError(f"kl_coef={self.kl_coef} needs log-probabilities of a reference")
            token_kl = self._kl_estimates(log_probs, torch.where(is_counted, ref_log_probs, 0.0), ratio)
            token_losses = token_losses + self.kl_coef * token_kl
            kl = _mean(token_kl.detach(), mask)
        is_low, is_high = (part.to(mask.dtype) for part in self._clip_masks(ratio.detach(), token_advantages))
        total = self._aggregate(token_losses, mask, max_length, tokens)
        with torch.no_grad():
            policy_loss = (
                self._aggregate(policy, mask, max_length, tokens) if self.kl_coef else total.detach()
            )
            return GRPOTerms(total, policy_loss, kl, _mean(is_low, mask), _mean(is_high, mask))

    @property
    def _clip_range(self) -> tuple[float, float]:
        high = self.clip_eps if self.clip_eps_high is None else self.clip_eps_high
        return 1.0 - self.clip_eps, 1.0 + high

    def _policy_losses(self, log_probs: Tensor, ratio: Tensor, token_advantages: Tensor) -> Tensor:
        """Return the policy loss of each token; for gspo of each completion, `[B, 1]`."""
        low, high = self._clip_range
        if self.loss_type == "cispo":
            return -ratio.detach().clamp(max=high) * token_advantages * log_probs
        clipped = ratio.clamp(low, high) * token_advantages
        free = ratio if self.delta is None else ratio.clamp(max=self.delta)
        return -torch.min(free * token_advantages, clipped)

    def _clip_masks(self, ratio: Tensor, token_advantages: Tensor) -> tuple[Tensor, Tensor]:
        """Return the masks of ratios that are clipped below and above."""
        low, high = self._clip_range
        if self.loss_type == "cispo":
            return torch.zeros_like(ratio), (ratio > high) & (token_advantages > 0)
        return (ratio < low) & (token_advantages < 0), (ratio > high) & (token_advantages > 0)

    def _kl_estimates(self, log_probs: Tensor, ref_log_probs: Tensor, ratio: Tensor) -> Tensor:
        d = ref_log_probs - log_probs
        if self.kl_estimator == "k3":
            estimate = d.exp() - d - 1.0
        else:
            estimate = -d if self.kl_estimator == "k1" else 0.5 * d.square()
        return estimate * ratio if self.kl_correction else estimate

    def _aggregate(
        self, token_losses: Tensor, mask: Tensor, max_length: int | None, tokens: Tensor | float | None
    ) -> Tensor:
        """Reduce `token_losses`, `[B, T]` or `[B, 1]`, to a scalar."""
        total = token_losses * mask
        if self.loss_type in ("grpo", "gspo"):
            return (total.sum(-1) / _lengths(mask)).mean()
        if self.loss_type == "dr_grpo":
            assert max_length is not None
            return total.sum() / (len(mask) * max_length)
        count = mask.sum() if self.loss_type == "bnpo" or tokens is None else torch.as_tensor(tokens)
        return total.sum() / count.clamp(min=1.0)


def importance_weights(
    log_probs: Tensor,
    sampled_log_probs: Tensor,
    mask: Tensor,
    correction: str,
    max_weight: float | None = 3.0,
    min_weight: float | None = None,
) -> Tensor:
    """Compute weights for tokens that another program or older weights sampled (Yao et al. 2025).

    The weight is pi(t) / sampled(t) per token, `[B, T]`, or the product over a completion's tokens, `[B, 1]`.
    Weights outside [min_weight, max_weight] are clamped (`*_truncate`) or set to 0 (`*_mask`). A token
    with an unknown log-probability (NaN) has the ratio 1.

    Parameters
    ----------
    log_probs : log-probabilities under the learning model before its steps, `[B, T]`
    sampled_log_probs : log-probabilities under the program that sampled them, `[B, T]`
    mask : true for the tokens that count, `[B, T]`
    correction : one of `CORRECTIONS`
    max_weight, min_weight : bounds of a weight; None: no bound
    """
    if correction not in CORRECTIONS:
        raise ConfigError(f"correction={correction}, expected one of {', '.join(CORRECTIONS)}")
    if max_weight is not None and min_weight is not None and min_weight > max_weight:
        raise ConfigError(
            f"min_weight={min_weight} and max_weight={max_weight}: expected min_weight <= max_weight"
        )
    if log_probs.dim() != 2 or not log_probs.shape == sampled_log_probs.shape == mask.shape:
        shapes = [list(tensor.shape) for tensor in (log_probs, sampled_log_probs, mask)]
        raise ShapeError(f"log-probabilities and mask {shapes}: expected the same shape [B, T] for all")
    log_ratio = torch.where(mask.bool(), log_probs - sampled_log_probs, 0.0).nan_to_num(nan=0.0).detach()
    ratio = (log_ratio.sum(-1, keepdim=True) if correction.startswith("sequence") else log_ratio).exp()
    low, high = (
        (-torch.inf if min_weight is None else min_weight),
        (torch.inf if max_weight is None else max_weight),
    )
    if correction.endswith("truncate"):
        return ratio.clamp(low, high)
    return ratio.masked_fill((ratio < low) | (ratio > high), 0.0)


def _require_numbers(loss: GRPOLoss) -> None:
    high = loss.clip_eps if loss.clip_eps_high is None else loss.clip_eps_high
    delta = 1.0 if loss.delta is None else loss.delta
    require_numbers(clip_eps=loss.clip_eps, clip_eps_high=high, delta=delta, kl_coef=loss.kl_coef)
    for name, is_valid, expected in (
        ("clip_eps", 0.0 <= loss.clip_eps < 1.0, "in [0, 1)"),
        ("clip_eps_high", 0.0 <= high < torch.inf, ">= 0"),
        ("delta", delta >= 1.0, ">= 1"),
        ("kl_coef", 0.0 <= loss.kl_coef < torch.inf, ">= 0"),
    ):
        if not is_valid:
            raise ConfigError(f"{name}={getattr(loss, name)}, expected a number {expected}")
    if loss.delta is not None and loss.loss_type == "cispo":
        raise ConfigError(f"delta={loss.delta} does not apply to loss_type=cispo; leave it out")
    if loss.delta is not None and loss.delta < 1.0 + high:
        raise ConfigError(
            f"delta={loss.delta:g} is below 1 + clip_eps_high = {1.0 + high:g}, and has the same effect as "
            f"{1.0 + high:g}; expected at least {1.0 + high:g}, or none"
        )


def _require_shapes(log_probs: Tensor, advantages: Tensor, *tensors: Tensor | None) -> None:
    """Raise `ShapeError` for shapes that would broadcast, except weights of completions, `[B, 1]`."""
    *same_shaped, weights = tensors
    shape = log_probs.shape
    if log_probs.dim() != 2 or any(tensor is not None and tensor.shape != shape for tensor in same_shaped):
        shapes = [list(tensor.shape) for tensor in (log_probs, *same_shaped) if tensor is not None]
        raise ShapeError(f"log-probabilities and mask {shapes}: expected the same shape [B, T] for all")
    if advantages.shape != shape[:1]:
        raise ShapeError(
            f"advantages {list(advantages.shape)}, expected [{shape[0]}]: one for each completion"
        )
    if weights is not None and weights.shape not in (shape, (shape[0], 1)):
        raise ShapeError(f"weights {list(weights.shape)}, expected {list(shape)} or [{shape[0]}, 1]")


def _lengths(mask: Tensor) -> Tensor:
    return mask.sum(-1).clamp(min=1.0)


def _mean(token_values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over tokens, or for `[B, 1]` over completions."""
    if token_values.shape != mask.shape:
        return token_values.mean()
    return (token_values * mask).sum() / mask.sum().clamp(min=1.0)
