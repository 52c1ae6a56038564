"""PPO's loss, composed of the pure losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rlox.errors import ConfigError, ShapeError
from rlox.losses.actor_critic import (
    clip_fraction,
    clipped_surrogate,
    clipped_value_loss,
    kl_estimate,
    value_loss,
)
from rlox.losses.settings import require_numbers

__all__ = ["PPOLoss", "PPOTerms"]


class PPOTerms(NamedTuple):
    """The loss of one minibatch and its terms; scalars, `total` with gradient."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    approx_kl: Tensor
    clip_fraction: Tensor


class ScoringPolicy(Protocol):
    """The methods of a policy that `PPOLoss` calls."""

    def get_value(self, obs: Tensor) -> Tensor:
        """Return V(obs), `[B]`."""

    def get_logprob_and_entropy(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log-probability and entropy, each `[B]`."""


class PPOLoss:
    """Clipped surrogate - ent_coef * entropy + vf_coef * value loss (PPO eq. 9).

    Parameters
    ----------
    clip_eps : the ratio is clipped to [1 - clip_eps, 1 + clip_eps]
    vf_coef, ent_coef : weights of the value loss and the entropy bonus
    max_grad_norm : stored for the caller, who clips gradients after `backward`
    clip_vloss : clip the value update by `clip_eps` around the old value

    `ConfigError` for arguments of another type or below their range.
    """

    def __init__(
        self,
        clip_eps: float = 0.2,
        vf_coef: float = 0.5,
        ent_coef: float = 0.01,
        max_grad_norm: float | None = 0.5,
        clip_vloss: bool = False,
    ) -> None:
        limit = math.inf if max_grad_norm is None else max_grad_norm
        require_numbers(clip_eps=clip_eps, vf_coef=vf_coef, ent_coef=ent_coef, max_grad_norm=limit)
        for name, value in (("clip_eps", clip_eps), ("max_grad_norm", limit)):
            if not value >= 0.0:  # NaN fails too
                raise ConfigError(f"{name}={value}, expected a number >= 0")
        if not isinstance(clip_vloss, bool):
            raise ConfigError(f"clip_vloss={clip_vloss!r}, expected True or False")
        self.clip_eps = clip_eps
        self.vf_coef = vf_coef
        self.ent_coef = ent_coef
        self.max_grad_norm = max_grad_norm
        self.clip_vloss = clip_vloss

    def __call__(
        self,
        policy: ScoringPolicy,
        obs: Tensor,
        actions: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        old_values: Tensor,
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the total loss (scalar, with gradient) and its parts as floats.

        `obs` and `actions` are `[B, ...]`, the other inputs and the policy's outputs `[B]`. `ShapeError` for
        values that are not tensors and for other shapes, which would broadcast. `ConfigError` if the policy
        lacks a method, or if its values have a gradient and its log-probabilities do not. Keys:
        `policy_loss`, `value_loss`, `entropy`, `approx_kl`, `clip_fraction`.
        """
        for method in ("get_logprob_and_entropy", "get_value"):
            if not callable(getattr(policy, method, None)):
                raise ConfigError(f"PPOLoss: policy {type(policy).__name__} lacks {method}")
        for name, value in (("obs", obs), ("actions", actions)):
            if not isinstance(value, Tensor) or not value.ndim:
                raise ShapeError(f"PPOLoss: {name} is {_describe(value)}, expected a tensor [B, ...]")
        if len(obs) != len(actions):
            raise ShapeError(f"PPOLoss: obs has {len(obs)} rows, actions {len(actions)}")
        tensors = {
            "old_log_probs": old_log_probs,
            "advantages": advantages,
            "returns": returns,
            "old_values": old_values,
        }
        _require_shape(len(obs), tensors)
        log_probs, entropy = policy.get_logprob_and_entropy(obs, actions)
        values = policy.get_value(obs)
        _require_shape(len(obs), {"the policy's log_probs": log_probs, "the policy's values": values})
        if values.requires_grad and not log_probs.requires_grad:
            raise ConfigError(
                "PPOLoss: the policy's log_probs have no gradient, but its values have one, so only values "
                "would be learned; compute log_probs without torch.no_grad() and detach()"
            )
        terms = self.terms(log_probs, entropy, values, old_log_probs, advantages, returns, old_values)
        parts: dict[str, Any] = {
            "policy_loss": terms.policy,
            "value_loss": terms.value,
            "entropy": terms.entropy,
            "approx_kl": terms.approx_kl,
            "clip_fraction": terms.clip_fraction,
        }
        return terms.total, {name: float(part.detach()) for name, part in parts.items()}

    def terms(
        self,
        log_probs: Tensor,
        entropy: Tensor,
        values: Tensor,
        old_log_probs: Tensor,
        advantages: Tensor,
        returns: Tensor,
        old_values: Tensor,
    ) -> PPOTerms:
        """Compute the loss from the policy's outputs for a minibatch; all inputs `[B]`."""
        log_ratio = log_probs - old_log_probs
        policy = clipped_surrogate(log_ratio, advantages, self.clip_eps)
        value = (
            clipped_value_loss(values, old_values, returns, self.clip_eps)
            if self.clip_vloss
            else value_loss(values, returns)
        )
        mean_entropy = entropy.mean()
        total = policy + self.vf_coef * value - self.ent_coef * mean_entropy
        with torch.no_grad():
            change_measures = kl_estimate(log_ratio), clip_fraction(log_ratio, self.clip_eps)
        return PPOTerms(total, policy.detach(), value.detach(), mean_entropy.detach(), *change_measures)


def _require_shape(n_rows: int, tensors: Mapping[str, Tensor]) -> None:
    """Raise `ShapeError` unless each is a tensor `[n_rows]`."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ShapeError(f"PPOLoss: {name} is {_describe(tensor)}, expected a tensor [{n_rows}]")
        if tensor.shape != (n_rows,):
            raise ShapeError(f"PPOLoss: {name} of shape {list(tensor.shape)}, expected [{n_rows}]")


def _describe(value: Any) -> str:
    return "a tensor without dimensions" if isinstance(value, Tensor) else f"a {type(value).__name__}"
