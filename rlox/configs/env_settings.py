"""Settings of the environment that the algorithm or the environment must support."""

from __future__ import annotations

from dataclasses import asdict

from rlox.configs.env import AtariConfig, EnvConfig, is_ale
from rlox.configs.run import ALGO_CONFIGS, RunConfig
from rlox.errors import ConfigError

__all__ = ["require_env_settings"]


def require_env_settings(run: RunConfig) -> None:
    """Raise `ConfigError` for settings without support or effect: masks, parts for the critic, Atari."""
    _require_masks(run)
    _require_critic_obs(run)
    _require_game(run.env)


def _require_masks(run: RunConfig) -> None:
    """Raise `ConfigError` for masks that the algorithm does not support, or a mask name without use."""
    env = run.env
    if env.action_mask != "none" and not run.algo.supports_masks:
        raise ConfigError(
            f"env.action_mask={env.action_mask}: {run.algo.name} does not support action masks "
            f"({_names_with('supports_masks')} do); leave it out"
        )
    default = type(env).action_mask_key
    if env.action_mask_key != default and env.action_mask not in ("info", "observation"):
        raise ConfigError(
            f"env.action_mask_key={env.action_mask_key}: it has no effect with "
            f"env.action_mask={env.action_mask}; set env.action_mask=info or observation"
        )


def _require_critic_obs(run: RunConfig) -> None:
    """Raise `ConfigError` for `env.critic_obs` with an algorithm that has no actor and critic."""
    if "" in run.env.critic_infos:
        raise ConfigError(
            f"env.critic_obs={list(run.env.critic_obs)}: info. names no entry of the info; expected info.NAME"
        )
    if run.env.critic_obs and not run.algo.supports_critic_obs:
        raise ConfigError(
            f"env.critic_obs={list(run.env.critic_obs)}: {run.algo.name} has no critic that can see more "
            f"than its actor ({_names_with('supports_critic_obs')} have); leave it out"
        )


def _names_with(flag: str) -> str:
    """Return the names of the algorithms whose class has this flag."""
    return ", ".join(name for name, kind in ALGO_CONFIGS.items() if getattr(kind, flag))


def _require_game(env: EnvConfig) -> None:
    """Raise `ConfigError` for Atari settings without an Atari game, or without preprocessing."""
    default = AtariConfig()
    changed_names = [name for name, value in asdict(env.atari).items() if value != getattr(default, name)]
    settings_text = ", ".join(f"env.atari.{name}={getattr(env.atari, name)}" for name in changed_names)
    if changed_names and not is_ale(env.id):
        raise ConfigError(
            f"{settings_text}: {env.id} is no game of the Arcade Learning Environment, whose ids begin with "
            "ALE/ (env=ALE/Pong-v5); leave it out"
        )
    if not env.atari.preprocess and len(changed_names) > 1:
        raise ConfigError(
            f"{settings_text}: without preprocessing no other key of env.atari has an effect; leave out "
            "those, or env.atari.preprocess=false"
        )
