"""Networks of the user in place of an algorithm's own (`algo.policy`)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rlox.configs.env import EnvConfig
from rlox.configs.params import default_of
from rlox.errors import ConfigError

__all__ = ["BUILTIN_NETWORK_FIELDS", "idle_network_advice", "require_no_critic_obs"]

# Fields that describe the algorithm's own networks.
BUILTIN_NETWORK_FIELDS = (
    "net_arch",
    "critic_net_arch",
    "encoder",
    "encoder_features",
    "image_channels",
    "share_encoder",
    "activation",
    "ortho_init",
    "log_std_init",
    "use_sde",
)


def idle_network_advice(config: Any) -> list[str]:
    """Warn about fields of `BUILTIN_NETWORK_FIELDS` that have no effect with networks of the user."""
    if config.policy is None:
        return []
    own_fields = {f.name: f for f in fields(config)}
    idle = [
        f"algo.{name}"
        for name in BUILTIN_NETWORK_FIELDS
        if name in own_fields and getattr(config, name) != default_of(own_fields[name])
    ]
    return [f"{', '.join(idle)}: no effect with a policy of your own"] if idle else []


def require_no_critic_obs(config: Any, env: EnvConfig) -> None:
    """Raise `ConfigError` for `env.critic_obs` with networks of the user, which read whole observations."""
    if config.policy is not None and env.critic_obs:
        raise ConfigError(
            f"env.critic_obs={list(env.critic_obs)} and algo.policy: a policy of your own gets whole "
            "observations and chooses what its actor reads; leave env.critic_obs out"
        )
