"""Which engine a configuration or a user's object means, and what can be put around it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import gymnasium as gym

from rlox.configs import EnvConfig
from rlox.configs.secrets import revealed
from rlox.envs.engines.atari import plays_games, reward_clip_of
from rlox.envs.engines.lives import lives_of
from rlox.envs.engines.masked import EngineMasks
from rlox.envs.engines.pools import ale_games, pooled, require_pool_id
from rlox.envs.engines.put_around import require_fits
from rlox.envs.engines.vector import VectorEngine, autoreset_of, require_vector
from rlox.envs.failures import Closes
from rlox.envs.identity import require_apart
from rlox.envs.ids import find_spec, takes_num_envs, vector_factory
from rlox.envs.simulators import mujoco_warnings_logged
from rlox.errors import ConfigError, EnvError, MissingExtraError, RloxError
from rlox.importing import failure

__all__ = ["Maker", "VectorSource", "building", "engine_for", "maker_of", "require_env"]

Vector = gym.vector.VectorEnv[Any, Any, Any]
# A ready engine, or what makes one with so many environments: `make(num_envs=n)`.
VectorSource = Vector | Callable[..., Vector]
Maker = Callable[[int, bool], Vector]  # of so many environments, for training or not


@contextmanager
def building(env: Closes, source: Any) -> Iterator[None]:
    """The block that builds on environments made of `source`: they are closed where it raises.

    A `gymnasium.vector.VectorEnv` that the user made stays open: it can be given to another run.
    """
    try:
        yield
    except BaseException:
        if not isinstance(source, gym.vector.VectorEnv):
            with suppress(Exception):
                env.close()
        raise


def maker_of(config: EnvConfig, source: Any = None) -> Maker | None:
    """What makes the engine that is meant; `None` for environments that are stepped one by one."""
    if source is None and config.backend in ("envpool", "ale"):
        make = pooled if config.backend == "envpool" else ale_games
        maker: Maker = partial(_in_order, make, config)
    elif isinstance(source, gym.vector.VectorEnv):
        maker = partial(_itself, source, config)
    else:
        factory = vector_factory(config.id) if source is None else source
        if not (callable(factory) and takes_num_envs(factory)):
            return None
        maker = partial(_made, factory, config)
    require_fits(config, source)
    return maker


def engine_for(
    config: EnvConfig, maker: Maker, seed: int, keep_infos: bool, source: Any = None
) -> VectorEngine:
    """The engine as sources read it; closed where it does not fit, unless it is the user's own object."""
    ours = config.backend in ("envpool", "ale")
    clip, lives = (reward_clip_of(config), lives_of(config)) if ours else (config.reward_clip, None)
    env = maker(config.n_envs, True)
    stacked = env.single_observation_space.shape if ours and plays_games(config) else None
    frames = stacked[0] if stacked else 1
    shaping = config.reward_scale, clip, lives, frames
    with building(env, source):
        require_apart([env], config.id)
        masks = _masks(env, config)
        return VectorEngine(env, seed, config.id, keep_infos, *shaping, config.seeding, masks)


def _masks(env: Vector, config: EnvConfig) -> EngineMasks | None:
    """The configured masks of an engine's environments."""
    if config.action_mask == "none":
        return None
    mode = autoreset_of(env, config.id)
    return EngineMasks(env, mode, config.action_mask, config.action_mask_key, config.id)


def require_env(config: EnvConfig) -> None:
    """Raise where nothing of the configured id is there: `UnknownNameError`, `MissingExtraError`."""
    if config.backend == "envpool":
        require_pool_id(config)
    elif vector_factory(config.id) is None:
        find_spec(config.id)


def _in_order(
    make: Callable[[EnvConfig, int, bool], Vector], config: EnvConfig, n_envs: int, training: bool
) -> Vector:
    return _required(make(config, n_envs, training), n_envs, config.id)


def _made(make: Callable[..., Any], config: EnvConfig, n_envs: int, training: bool) -> Vector:
    """What a factory of the user's makes."""
    options = revealed(config.kwargs)
    try:
        inspect.signature(make).bind(num_envs=n_envs, **options)
    except TypeError as error:
        raise ConfigError(f"env={config.id}: env.kwargs do not fit: {error}") from error
    try:
        with mujoco_warnings_logged():
            made = make(num_envs=n_envs, **options)
    except RloxError:
        raise
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        raise MissingExtraError(
            f"env={config.id} needs a package that is not installed: {error}"
        ) from error
    except (Exception, SystemExit) as error:
        raise EnvError(
            f"env={config.id} fails when it is made with num_envs={n_envs}: {failure(error)}"
        ) from error
    return _required(made, n_envs, config.id)


def _required(made: Any, n_envs: int, name: str) -> Vector:
    """What was made, if it is an engine of that size; else it is closed."""
    with building(made, None):
        return require_vector(made, n_envs, name)


def _itself(env: Vector, config: EnvConfig, n_envs: int, training: bool) -> Vector:
    """The user's own object, which trains; it cannot be had a second time."""
    if not training:
        raise ConfigError(
            f"{config.id}: an evaluation needs an environment of its own, and a vectorised one cannot be "
            "copied; pass what makes it instead: PPO(lambda num_envs: MyVectorEnv(num_envs))"
        )
    if config.kwargs:
        raise ConfigError(f"env.kwargs={config.kwargs} need an id or a factory, got an environment")
    if env.num_envs != n_envs:
        raise ConfigError(
            f"n_envs={n_envs}: {config.id} has {env.num_envs} environments; give n_envs={env.num_envs}"
        )
    return require_vector(env, n_envs, config.id)
