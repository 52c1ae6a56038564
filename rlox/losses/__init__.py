"""Losses: pure functions, and classes that combine terms (`PPOLoss`, `GRPOLoss`, `DPOLoss`)."""

from rlox.losses.distributional import (
    categorical_kl,
    categorical_kl_gradient,
    project_atoms,
    quantile_huber,
    quantile_huber_gradient,
    quantile_midpoints,
)
from rlox.losses.grpo import GRPOLoss, GRPOTerms, importance_weights, rloo_loss
from rlox.losses.policy import (
    clip_fraction,
    clipped_surrogate,
    kl_estimate,
    policy_gradient,
    standardize,
)
from rlox.losses.ppo import PPOLoss, PPOTerms, Slopes
from rlox.losses.preference import CompletionLogProbs, DPOLoss, DPOTerms
from rlox.losses.sac import soft_policy_loss, temperature_loss
from rlox.losses.tokens import token_entropies, token_log_probs
from rlox.losses.value import (
    clipped_value_loss,
    critics_gradient,
    critics_loss,
    expectile_gradient,
    expectile_loss,
    td_gradient,
    td_loss,
    td_target,
    value_loss,
)

__all__ = [
    "CompletionLogProbs",
    "DPOLoss",
    "DPOTerms",
    "GRPOLoss",
    "GRPOTerms",
    "PPOLoss",
    "PPOTerms",
    "Slopes",
    "categorical_kl",
    "categorical_kl_gradient",
    "clip_fraction",
    "clipped_surrogate",
    "clipped_value_loss",
    "critics_gradient",
    "critics_loss",
    "expectile_gradient",
    "expectile_loss",
    "importance_weights",
    "kl_estimate",
    "policy_gradient",
    "project_atoms",
    "quantile_huber",
    "quantile_huber_gradient",
    "quantile_midpoints",
    "rloo_loss",
    "soft_policy_loss",
    "standardize",
    "td_gradient",
    "td_loss",
    "td_target",
    "temperature_loss",
    "token_entropies",
    "token_log_probs",
    "value_loss",
]
