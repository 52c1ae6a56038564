"""Choice and construction of the engine for a configuration or a user's object.

Engines do not support settings that wrap single environments; the error can name the preset that a setting
came from.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import gymnasium as gym

from rlox.configs import EnvConfig
from rlox.configs.env import is_preprocessed_game, training_reward_clip
from rlox.configs.secrets import unwrap
from rlox.envs.engines.lives import life_tracker_for
from rlox.envs.engines.masks import EngineMasks
from rlox.envs.engines.pools import make_ale, make_envpool, require_pool_id
from rlox.envs.engines.vector import VectorEngine, autoreset_mode, require_vector
from rlox.envs.failures import Closable
from rlox.envs.identity import require_distinct_envs
from rlox.envs.ids import find_spec, takes_num_envs, vector_factory
from rlox.envs.mujoco_log import log_mujoco_warnings
from rlox.errors import ConfigError, EnvError, MissingExtraError, RloxError, describe_error

__all__ = [
    "EngineFactory",
    "SingleEnvSettingError",
    "VectorEnvLike",
    "close_on_error",
    "engine_factory_for",
    "make_engine",
    "name_preset_in_errors",
    "require_engine_settings",
    "require_env",
]

# Settings that only wrap single environments.
_SINGLE_ENV_KEYS = (
    "env.action_repeat",
    "env.obs_keys",
    "env.wrappers",
    "env.reward_wrappers",
    "env.record_every",
    "env.workers",
)


class SingleEnvSettingError(ConfigError):
    """An engine does not support the settings `keys`, because they wrap single environments."""

    def __init__(self, config: EnvConfig, is_builtin: bool, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        is_one = len(keys) == 1
        label = f"env.backend={config.backend}" if is_builtin else f"{config.id}, a vectorised environment,"
        self._problem = f"{label} does not support {', '.join(keys)}, which {'wraps' if is_one else 'wrap'}"
        self._alternative = "use env.backend=gymnasium" if is_builtin else "use gymnasium.wrappers.vector"
        remedy = f"leave {'it' if is_one else 'them'} out"
        super().__init__(f"{self._problem} single environments; {remedy}, or {self._alternative}")

    def for_preset(self, preset: str, remedy: str, keys: Container[str]) -> ConfigError:
        """Return an error that also names the preset if it set some of the settings, else this error.

        `remedy` says how to leave the preset's settings out; `keys` are those settings.
        """
        preset_keys = [key for key in self.keys if key in keys]
        if not preset_keys:
            return self
        return ConfigError(
            f"{self._problem} single environments; {', '.join(preset_keys)} came with the tuned preset "
            f"{preset}: {remedy}, or {self._alternative}"
        )


@contextmanager
def name_preset_in_errors(preset: str | None, remedy: str, keys: Container[str]) -> Iterator[None]:
    """Context manager: errors about unsupported settings in `keys` name the tuned preset as their source."""
    try:
        yield
    except SingleEnvSettingError as error:
        if preset is None:
            raise
        raise error.for_preset(preset, remedy, keys) from error


def require_engine_settings(config: EnvConfig, source: Any) -> None:
    """Raise `ConfigError` for settings that an engine does not support."""
    is_builtin = config.backend in ("envpool", "ale") and source is None
    single_env_keys = (
        [*_SINGLE_ENV_KEYS]
        if is_builtin
        else [*_SINGLE_ENV_KEYS, "env.max_episode_steps", "env.repeat_action_probability"]
    )
    unsupported_keys = [key for key in config.gymnasium_only if key in single_env_keys]
    if is_builtin and config.action_mask != "none":
        unsupported_keys.append("env.action_mask")
    if unsupported_keys:
        raise SingleEnvSettingError(config, is_builtin, unsupported_keys)
    if config.critic_infos:
        raise ConfigError(
            f"env.critic_obs={list(config.critic_obs)}: an engine steps {config.id}, and entries of the info "
            "need environments that are stepped one by one; use env.backend=gymnasium, or give the engine a "
            "Dict with these parts"
        )
    if config.precision != "f64" or (config.backend == "native"):
        key = "env.backend=native" if config.backend == "native" else f"env.precision={config.precision}"
        raise ConfigError(f"{key} needs a native environment, but an engine steps {config.id}")


Vector = gym.vector.VectorEnv[Any, Any, Any]
# A ready engine, or a callable that makes one of a given size: `make(num_envs=n)`.
VectorEnvLike = Vector | Callable[..., Vector]
EngineFactory = Callable[[int, bool], Vector]  # (n_envs, training)


@contextmanager
def close_on_error(env: Closable, source: Any) -> Iterator[None]:
    """Context manager: close environments made from `source` if the block raises.

    A `gymnasium.vector.VectorEnv` that the user made stays open, since it can be used for another run.
    """
    try:
        yield
    except BaseException:
        if not isinstance(source, gym.vector.VectorEnv):
            with suppress(Exception):
                env.close()
        raise


def engine_factory_for(config: EnvConfig, source: Any = None) -> EngineFactory | None:
    """Return the factory of the configured engine; `None` for environments that are stepped one by one."""
    if source is None and config.backend in ("envpool", "ale"):
        make = make_envpool if config.backend == "envpool" else make_ale
        engine_factory: EngineFactory = partial(_make_checked, make, config)
    elif isinstance(source, gym.vector.VectorEnv):
        engine_factory = partial(_user_engine, source, config)
    else:
        factory = vector_factory(config.id) if source is None else source
        if not (callable(factory) and takes_num_envs(factory)):
            return None
        engine_factory = partial(_make_from_user, factory, config)
    require_engine_settings(config, source)
    return engine_factory


def make_engine(
    config: EnvConfig, engine_factory: EngineFactory, seed: int, keep_infos: bool, source: Any = None
) -> VectorEngine:
    """Make the engine as a `VectorEngine`; if it does not fit, it is closed, unless the user made it."""
    is_builtin = config.backend in ("envpool", "ale")
    clip, lives = (
        (training_reward_clip(config), life_tracker_for(config)) if is_builtin else (config.reward_clip, None)
    )
    env = engine_factory(config.n_envs, True)
    stack_shape = env.single_observation_space.shape if is_builtin and is_preprocessed_game(config) else None
    n_frames = stack_shape[0] if stack_shape else 1
    shaping = config.reward_scale, clip, lives, n_frames
    with close_on_error(env, source):
        require_distinct_envs([env], config.id)
        masks = _make_masks(env, config)
        return VectorEngine(env, seed, config.id, keep_infos, *shaping, config.seeding, masks)


def _make_masks(env: Vector, config: EnvConfig) -> EngineMasks | None:
    """Make the reader of the configured masks; `None` without masks."""
    if config.action_mask == "none":
        return None
    mode = autoreset_mode(env, config.id)
    return EngineMasks(env, mode, config.action_mask, config.action_mask_key, config.id)


def require_env(config: EnvConfig) -> None:
    """Raise `UnknownNameError` or `MissingExtraError` if the configured id does not exist."""
    if config.backend == "envpool":
        require_pool_id(config)
    elif vector_factory(config.id) is None:
        find_spec(config.id)


def _make_checked(
    make: Callable[[EnvConfig, int, bool], Vector], config: EnvConfig, n_envs: int, training: bool
) -> Vector:
    return _require_size(make(config, n_envs, training), n_envs, config.id)


def _make_from_user(make: Callable[..., Any], config: EnvConfig, n_envs: int, training: bool) -> Vector:
    """Make an engine with the user's factory."""
    options = unwrap(config.kwargs)
    try:
        inspect.signature(make).bind(num_envs=n_envs, **options)
    except TypeError as error:
        raise ConfigError(f"env={config.id}: env.kwargs do not fit: {error}") from error
    try:
        with log_mujoco_warnings():
            env = make(num_envs=n_envs, **options)
    except RloxError:
        raise
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise MissingExtraError(f"env={config.id} needs a package that is not installed: {error}") from error
    except (Exception, SystemExit) as error:
        raise EnvError(
            f"env={config.id} fails when it is made with num_envs={n_envs}: {describe_error(error)}"
        ) from error
    return _require_size(env, n_envs, config.id)


def _require_size(env: Any, n_envs: int, name: str) -> Vector:
    """Return the engine if it has `n_envs` environments, else close it and raise an error."""
    with close_on_error(env, None):
        return require_vector(env, n_envs, name)


def _user_engine(env: Vector, config: EnvConfig, n_envs: int, training: bool) -> Vector:
    """Return the user's own object for training; it cannot be made a second time for an evaluation."""
    if not training:
        raise ConfigError(
            f"{config.id}: an evaluation needs an environment of its own, and a vectorised one cannot be "
            "copied; pass a callable that makes it instead: PPO(lambda num_envs: MyVectorEnv(num_envs))"
        )
    if config.kwargs:
        raise ConfigError(f"env.kwargs={config.kwargs} need an id or a factory, got an environment")
    if env.num_envs != n_envs:
        raise ConfigError(
            f"n_envs={n_envs}: {config.id} has {env.num_envs} environments; give n_envs={env.num_envs}"
        )
    return require_vector(env, n_envs, config.id)
