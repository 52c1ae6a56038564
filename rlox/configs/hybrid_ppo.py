"""Hybrid PPO: Rust collects the rollouts, torch learns from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.params import param
from rlox.configs.ppo import PPOConfig
from rlox.errors import ConfigError


@dataclass(frozen=True)
class HybridPPOConfig(PPOConfig):
    """PPO's settings and defaults, with 16 environments."""

    supports_masks: ClassVar[bool] = False  # native environments have none
    action_kinds: ClassVar[tuple[str, ...]] = ("Discrete", "Box")
    default_overrides: ClassVar[Mapping[str, Any]] = {"env.n_envs": 16}
    is_native_only: ClassVar[bool] = True
    supports_critic_obs: ClassVar[bool] = False
    drops: ClassVar[Mapping[str, str]] = {"policy": "takes no policy of your own: Rust cannot run it"}

    name: str = param("hybrid_ppo", "the algorithm", choices=("hybrid_ppo",))
    backend: str = param("cpu", "engine of rollouts, in Rust; updates are torch's", choices=("cpu",))

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Check fields that depend on each other."""
        super().check(env, buffer)
        gymnasium_only = list(env.gymnasium_only)
        if env.backend not in ("auto", "native"):
            gymnasium_only.append(f"env.backend={env.backend}")
        if gymnasium_only:
            raise ConfigError(
                f"{' and '.join(gymnasium_only)}: hybrid_ppo collects in Rust, from native environments as "
                f"they are; leave {'it' if len(gymnasium_only) == 1 else 'them'} out, or set algo=ppo"
            )
