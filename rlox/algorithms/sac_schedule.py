"""What soft actor-critic's updates share whatever learns."""

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


# Online or on a dataset.
SACLikeConfig = SACConfig | CQLConfig


def resolve_target_entropy(config: SACLikeConfig, actions: ActionCodec) -> float:
    """What is configured, or -dim(A), of choices 0.98 log|A|.

    No policy has more than the uniform one: log|A|, or dim(A) log 2 over [-1, 1]; after more than that the
    temperature grows for ever.
    """
    max_entropy = math.log(actions.size) if actions.is_discrete else actions.size * math.log(2.0)
    if config.target_entropy is not None:
        if config.target_entropy >= max_entropy:
            raise ConfigError(
                f"algo.target_entropy={config.target_entropy:g}: no policy gets there, the uniform one has "
                f"{max_entropy:.3g}; give less, or leave it out"
            )
        return config.target_entropy
    return 0.98 * max_entropy if actions.is_discrete else -float(actions.size)
