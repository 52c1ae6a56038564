"""Engine options that rlox's own keys set, or that rlox sets itself: not allowed in `env.kwargs`."""

from __future__ import annotations

from typing import Any

from rlox.configs import EnvConfig
from rlox.configs.atari import is_ale
from rlox.configs.secrets import unwrap
from rlox.errors import ConfigError

__all__ = ["engine_options"]

_ALL_AT_ONCE = "an engine steps all of its environments at once"
_GRAY = "games are preprocessed to gray frames; use env.backend=gymnasium and env.atari.preprocess=false"

# Options of every engine: the key that sets the option, or why no key does.
_RESERVED = {
    "num_envs": "env.n_envs",
    "seed": "seed",
    "env_seed": "seed",
    "max_episode_steps": "env.max_episode_steps",
    "batch_size": _ALL_AT_ONCE,
    "env_type": "rlox always uses Gymnasium's API",
    "gym_reset_return_info": "rlox always uses Gymnasium's API",
    "autoreset_mode": "rlox always uses NEXT_STEP",
}

# Further options of engines of games: EnvPool's names, and ALE's where they differ.
_RESERVED_FOR_GAMES = {
    "game": "env",
    "task": "env",
    "max_num_frames_per_episode": "env.max_episode_steps",
    "repeat_action_probability": "env.repeat_action_probability",
    "noop_max": "env.atari.noop_max",
    "frame_skip": "env.atari.frame_skip",
    "frameskip": "env.atari.frame_skip",
    "maxpool": "env.atari.max_pool",
    "img_height": "env.atari.screen_size",
    "img_width": "env.atari.screen_size",
    "stack_num": "env.atari.stack",
    "use_fire_reset": "env.atari.fire_reset",
    "episodic_life": "env.atari.life_loss",
    "life_loss_info": "env.atari.life_loss",
    "reward_clip": "env.atari.clip_rewards",
    "reward_clipping": "env.atari.clip_rewards",
    "gray_scale": _GRAY,
    "grayscale": _GRAY,
    "obs_type": _GRAY,
}


def engine_options(config: EnvConfig) -> dict[str, Any]:
    """Return `env.kwargs` for an engine; `ConfigError` for an option that rlox or one of its keys sets."""
    reserved_options = _RESERVED | _RESERVED_FOR_GAMES if is_ale(config.id) else _RESERVED
    for name in config.kwargs:
        remedy = reserved_options.get(name)
        if remedy is not None:
            message = remedy if " " in remedy else f"set {remedy}"
            raise ConfigError(f"env.kwargs.{name} with env.backend={config.backend}: {message}")
    options: dict[str, Any] = unwrap(config.kwargs)
    return options
