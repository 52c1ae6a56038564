"""Combinations that new runs may not use; runs of earlier versions that use them can continue."""

from __future__ import annotations

from rlox.configs.buffers import UniformConfig
from rlox.configs.env import EnvConfig
from rlox.configs.run import RunConfig
from rlox.errors import ConfigError

__all__ = ["check_new_run"]


def check_new_run(run: RunConfig) -> None:
    """Raise `ConfigError` for combinations that a new run may not use; do not call it for saved runs."""
    _require_no_repeat_with_masks(run)
    _require_comparable_rewards(run)


def _require_no_repeat_with_masks(run: RunConfig) -> None:
    """Raise `ConfigError` for masks with action repeat: the mask is not checked before a repeated action."""
    env = run.env
    for name in ("action_repeat", "repeat_action_probability"):
        value = getattr(env, name)
        if env.action_mask != "none" and value and value != getattr(EnvConfig, name):
            raise ConfigError(
                f"env.action_mask={env.action_mask} and env.{name}={value:g}: an action would be taken again "
                "in states that may forbid it; leave one of them out"
            )


def _require_comparable_rewards(run: RunConfig) -> None:
    """Raise `ConfigError` for hindsight with rewards that do not compare with those of `compute_reward`."""
    env, buffer = run.env, run.buffer
    if not isinstance(buffer, UniformConfig) or buffer.hindsight is None:
        return
    for name in ("reward_scale", "reward_clip", "action_repeat"):
        value = getattr(env, name)
        if value != getattr(EnvConfig, name):
            raise ConfigError(
                f"buffer.hindsight={buffer.hindsight} and env.{name}={value:g}: rewards for another goal "
                "come from compute_reward, without scale, clipping or repeated steps, so they would not "
                "compare with the stored rewards; leave one of them out"
            )
