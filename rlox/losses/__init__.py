"""Losses: pure functions, and classes that combine terms (`PPOLoss`, `GRPOLoss`, `DPOLoss`)."""

from rlox.losses.actor_critic import (
    clip_fraction,
    clipped_surrogate,
    clipped_value_loss,
    critics_loss,
    expectile_loss,
    kl_estimate,
    policy_gradient,
    soft_policy_loss,
    standardize,
    td_loss,
    td_target,
    temperature_loss,
    value_loss,
)
from rlox.losses.distributional import (
    categorical_kl,
    project_atoms,
    quantile_critics_loss,
    quantile_huber,
    quantile_midpoints,
    truncate_quantiles,
)
from rlox.losses.grpo import GRPOLoss, GRPOTerms, importance_weights, rloo_loss
from rlox.losses.ppo import PPOLoss, PPOTerms
from rlox.losses.preference import CompletionLogProbs, DPOLoss, DPOTerms
from rlox.losses.tokens import token_entropies, token_log_probs

__all__ = [
    "CompletionLogProbs",
    "DPOLoss",
    "DPOTerms",
    "GRPOLoss",
    "GRPOTerms",
    "PPOLoss",
    "PPOTerms",
    "categorical_kl",
    "clip_fraction",
    "clipped_surrogate",
    "clipped_value_loss",
    "critics_loss",
    "expectile_loss",
    "importance_weights",
    "kl_estimate",
    "policy_gradient",
    "project_atoms",
    "quantile_critics_loss",
    "quantile_huber",
    "quantile_midpoints",
    "rloo_loss",
    "soft_policy_loss",
    "standardize",
    "td_loss",
    "td_target",
    "temperature_loss",
    "token_entropies",
    "token_log_probs",
    "truncate_quantiles",
    "value_loss",
]
