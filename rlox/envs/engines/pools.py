"""EnvPool and ALE's own vectorised games as `gymnasium.vector.VectorEnv`s, and the options they may get."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from rlox.configs import EnvConfig, nearest
from rlox.configs.env import is_ale, is_preprocessed_game
from rlox.configs.secrets import unwrap
from rlox.envs.seeding import SEED_LIMIT
from rlox.envs.workers.worker_pool import cpu_count
from rlox.errors import ConfigError, EnvError, MissingExtraError, RloxError, UnknownNameError
from rlox.extras import install_command

__all__ = [
    "EnvPoolVectorEnv",
    "engine_options",
    "is_envpool_id",
    "make_ale",
    "make_envpool",
    "require_pool_id",
]

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


STICKY_PROBABILITY = 0.25  # as in ALE/*-v5; Machado et al. 2018
MAX_FRAMES = 108_000  # maximum number of frames in a game, as in ALE/*-v5


class EnvPoolVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """An EnvPool as a vectorised environment; `reset(seed=s)` makes a new pool with the seeds s + i.

    `make(seeds)` makes a pool. EnvPool takes seeds only on creation, and resets in the step after
    the end of an episode.
    """

    def __init__(self, make: Callable[[list[int]], Any], n_envs: int) -> None:
        self._make, self.num_envs = make, n_envs
        self._pool = make(list(range(n_envs)))
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        self.action_space = batch_space(self.single_action_space, n_envs)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of all environments."""
        if seed is not None:
            assert isinstance(seed, int)
            self._pool.close()
            self._pool = self._make([(seed + i) % SEED_LIMIT for i in range(self.num_envs)])
        result: tuple[Any, dict[str, Any]] = self._pool.reset()
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
        result: tuple[Any, Any, Any, Any, dict[str, Any]] = self._pool.step(actions)
        return result

    def close(self, **kwargs: Any) -> None:
        """Close the pool and its threads."""
        self._pool.close()


def make_envpool(config: EnvConfig, n_envs: int, training: bool) -> EnvPoolVectorEnv:
    """Make the engine of `env.backend=envpool`, for one of Gymnasium's ids or one of EnvPool's own."""
    envpool = _import_engine("envpool", config)
    name = require_pool_id(config)
    defaults = {"num_threads": min(n_envs, cpu_count()), **_pool_arguments(config, training)}
    options = defaults | engine_options(config)

    def make(seeds: list[int]) -> Any:
        try:
            with warnings.catch_warnings():  # EnvPool's bounds are float64, which Gymnasium's spaces round
                warnings.filterwarnings("ignore", message=".*precision lowered")
                return envpool.make(name, env_type="gymnasium", num_envs=n_envs, env_seed=seeds, **options)
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            raise _make_error(config, "EnvPool", error) from error

    return EnvPoolVectorEnv(make, n_envs)


def require_pool_id(config: EnvConfig) -> str:
    """Return EnvPool's name for an id; `UnknownNameError` if EnvPool does not have it."""
    name = config.id.rpartition(":")[2].removeprefix("ALE/")
    ids = _import_engine("envpool", config).list_all_envs()
    if name not in ids:
        raise UnknownNameError(f"env.backend=envpool: EnvPool has no {name}{nearest(name, ids)}")
    return name


def is_envpool_id(env_id: str) -> bool:
    """Tell whether EnvPool is installed and has the id."""
    try:
        import envpool
    except ImportError:
        return False
    return env_id in envpool.list_all_envs()


def _pool_arguments(config: EnvConfig, training: bool) -> dict[str, Any]:
    limit, repeat_probability, atari = (
        config.max_episode_steps,
        config.repeat_action_probability,
        config.atari,
    )
    if not is_ale(config.id):
        if repeat_probability is not None:
            raise ConfigError(
                "env.repeat_action_probability: EnvPool has sticky actions for Atari games only; set "
                "env.backend=gymnasium, or leave it out"
            )
        return {} if limit is None else {"max_episode_steps": limit}
    _require_preprocessing(config)
    if not atari.max_pool and atari.frame_skip > 1:
        raise ConfigError("env.atari.max_pool=false: EnvPool always takes the maximum of two frames")
    return {
        "max_episode_steps": -(-(limit or MAX_FRAMES) // atari.frame_skip),
        "noop_max": max(atari.noop_max, 1),
        "frame_skip": atari.frame_skip,
        "img_height": atari.screen_size,
        "img_width": atari.screen_size,
        "stack_num": atari.stack,
        "use_fire_reset": atari.fire_reset,
        "episodic_life": training and atari.life_loss,
        "reward_clip": False,  # rlox clips rewards, so that true scores are reported
        "repeat_action_probability": STICKY_PROBABILITY if repeat_probability is None else repeat_probability,
    }


def make_ale(config: EnvConfig, n_envs: int, training: bool) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make the engine of `env.backend=ale`: the games of `ale_py.vector_env.AtariVectorEnv`."""
    if not is_ale(config.id):
        raise ConfigError(
            f"env.backend=ale plays Atari games only, such as env=ALE/Pong-v5, got {config.id}; "
            "use env.backend=auto"
        )
    _require_preprocessing(config)
    ale_vector_env = _import_engine("ale_py", config)
    spec_kwargs = gym.spec(config.id.rpartition(":")[2]).kwargs
    atari, repeat_probability = config.atari, config.repeat_action_probability
    options: dict[str, Any] = {
        "max_num_frames_per_episode": config.max_episode_steps or MAX_FRAMES,
        "repeat_action_probability": STICKY_PROBABILITY if repeat_probability is None else repeat_probability,
        "num_threads": min(n_envs, cpu_count()),
        "img_height": atari.screen_size,
        "img_width": atari.screen_size,
        "stack_num": atari.stack,
        "frameskip": atari.frame_skip,
        "maxpool": atari.max_pool,
        "noop_max": atari.noop_max,
        # not `episodic_life`: in ale-py 0.12 it begins a new game, so that only first lives are played
        "life_loss_info": training and atari.life_loss,
        "reward_clipping": False,  # rlox clips rewards, so that true scores are reported
        "use_fire_reset": atari.fire_reset,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }
    try:
        env: gym.vector.VectorEnv[Any, Any, Any] = ale_vector_env.AtariVectorEnv(
            spec_kwargs["game"], n_envs, **options | engine_options(config)
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise _make_error(config, "AtariVectorEnv", error) from error
    return _SeededAle(env)


class _SeededAle(gym.vector.VectorWrapper):
    """ALE's vectorised games, which only take seeds below 2**31; game i is seeded with `seed + i`."""

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a new game in all environments."""
        seeds: Any = None
        if seed is not None:
            assert isinstance(seed, int)
            seeds = np.array([(seed + i) % SEED_LIMIT for i in range(self.num_envs)])
        result: tuple[Any, dict[str, Any]] = self.env.reset(seed=seeds, options=options)
        return result


def _require_preprocessing(config: EnvConfig) -> None:
    if not is_preprocessed_game(config):
        raise ConfigError(
            f"env.atari.preprocess=false: env.backend={config.backend} always preprocesses; use "
            "env.backend=gymnasium"
        )


def _make_error(config: EnvConfig, engine: str, error: Exception) -> RloxError:
    """Return the error for an engine that cannot be made; with user options, it says that they do not fit."""
    detail = next(iter(str(error).splitlines()), type(error).__name__)
    if config.kwargs:
        return ConfigError(f"env={config.id}: env.kwargs do not fit {engine}: {detail}")
    return EnvError(f"env={config.id} fails when {engine} makes it: {detail}")


_EXTRA = {"envpool": "envpool", "ale_py": "atari"}


def _import_engine(name: str, config: EnvConfig) -> Any:
    """Import the package of an engine; `MissingExtraError` has the command that installs it."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"env.backend={config.backend} needs the package {name.replace('_', '-')}, which cannot be "
            f"imported: {install_command(_EXTRA[name])}"
        ) from error
    if name == "ale_py":
        gym.register_envs(module)
        return importlib.import_module("ale_py.vector_env")
    return module
