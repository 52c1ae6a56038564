"""Losses as pure functions, and `PPOLoss`, their composition."""

from rlox.losses.distributional import (
    categorical_kl,
    categorical_kl_gradient,
    project_atoms,
    quantile_huber,
    quantile_huber_gradient,
    quantile_midpoints,
)
from rlox.losses.expectile import expectile_gradient, expectile_loss
from rlox.losses.policy import (
    clip_fraction,
    clipped_surrogate,
    kl_estimate,
    policy_gradient,
    standardize,
)
from rlox.losses.ppo import PPOLoss, PPOTerms, Slopes
from rlox.losses.soft import soft_policy_loss, temperature_loss
from rlox.losses.td import critics_gradient, critics_loss, td_gradient, td_loss, td_target
from rlox.losses.value import clipped_value_loss, value_loss

__all__ = [
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
    "kl_estimate",
    "policy_gradient",
    "project_atoms",
    "quantile_huber",
    "quantile_huber_gradient",
    "quantile_midpoints",
    "soft_policy_loss",
    "standardize",
    "td_gradient",
    "td_loss",
    "td_target",
    "temperature_loss",
    "value_loss",
]
