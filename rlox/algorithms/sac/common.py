"""Metric names and the target entropy that the torch and native SAC learners share."""

from __future__ import annotations

import math

from rlox.configs import CQLConfig, SACConfig
from rlox.envs.actions import ActionCodec
from rlox.errors import ConfigError

__all__ = ["METRIC_NAMES", "SACLikeConfig", "resolve_target_entropy"]

METRIC_NAMES = (
    "loss/critic",
    "loss/actor",
    "loss/temperature",
    "value/q_mean",
    "policy/entropy",
    "policy/temperature",
    "train/grad_norm",
)


# SAC learns online, CQL from a dataset.
SACLikeConfig = SACConfig | CQLConfig


def resolve_target_entropy(config: SACLikeConfig, actions: ActionCodec) -> float:
    """Return the target entropy; its default is -dim(A) for vectors and 0.98 log|A| for choices.

    The uniform policy has the maximum entropy: log|A|, or dim(A) log 2 over [-1, 1]. With a target at or
    above the maximum the temperature would grow without bound, so such a target raises `ConfigError`.
    """
    max_entropy = math.log(actions.size) if actions.is_discrete else actions.size * math.log(2.0)
    if config.target_entropy is not None:
        if config.target_entropy >= max_entropy:
            raise ConfigError(
                f"algo.target_entropy={config.target_entropy:g}: the entropy of a policy is at most that "
                f"of the uniform policy, {max_entropy:.3g}; set it lower, or leave it out"
            )
        return config.target_entropy
    return 0.98 * max_entropy if actions.is_discrete else -float(actions.size)
