"""Construction of environments from a configuration: single ones, and vectorised ones for training."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
from gymnasium import spaces

from rlox._core import native_env_ids
from rlox.configs import EnvConfig
from rlox.configs.env import is_ale
from rlox.configs.secrets import unwrap
from rlox.envs.base import VectorEnv
from rlox.envs.engines.atari import ale_arguments
from rlox.envs.engines.factories import VectorEnvLike, close_on_error, engine_factory_for, make_engine
from rlox.envs.engines.single import SingleEngineEnv
from rlox.envs.eval_envs import EvalEnvs, LocalEvalEnvs
from rlox.envs.gym_vec import EnvFactory, SyncGymVecEnv, make_all
from rlox.envs.headless import choose_mujoco_gl
from rlox.envs.identity import require_distinct_envs
from rlox.envs.ids import NativeGymEnv, find_spec, with_class_object
from rlox.envs.masks import mask_wrapper
from rlox.envs.mujoco_log import log_mujoco_warnings
from rlox.envs.native import NativeVecEnv, native_env_class
from rlox.envs.spaces import ObservationCodec
from rlox.envs.videos import EpisodeVideoRecorder, require_video
from rlox.envs.workers.eval_envs import SupervisedEvalEnvs
from rlox.envs.workers.vec_env import SupervisedVecEnv
from rlox.envs.workers.worker_pool import envs_per_worker
from rlox.envs.wrappers import make_wrapper, with_time_limit
from rlox.errors import ConfigError, EnvError, MissingExtraError, RloxError, describe_error
from rlox.extras import install_command

__all__ = [
    "EnvLike",
    "EvalEnvFactory",
    "copy_env_source",
    "is_not_gym_env_error",
    "make_vec",
    "require_native",
    "source_factory",
    "unwrapped_factory",
    "uses_native",
    "wrapped_factory",
]

# Objects that a user may pass instead of an id.
EnvLike = str | gym.Env[Any, Any] | EnvFactory | VectorEnvLike

# Extras to install for a missing import, by a word in the text of the error.
_EXTRAS = {"box2d": "box2d", "minigrid": "minigrid", "mujoco": "mujoco", "pygame": "video"}


def uses_native(config: EnvConfig) -> bool:
    """Tell whether this configuration runs in Rust; `ConfigError` for settings that contradict the answer.

    Wrappers and settings that change how an environment is made need Gymnasium.
    """
    gymnasium_only = " and ".join(config.gymnasium_only)
    is_native = not gymnasium_only and native_env_class(config.id) is not None
    if config.backend == "native" and not is_native:
        raise ConfigError(
            f"env.backend=native cannot run {config.id}{gymnasium_only and f' with {gymnasium_only}'}"
            f"; native ids are {', '.join(native_env_ids())}; use env.backend=auto"
        )
    is_native &= config.backend in ("auto", "native")
    if is_native and config.action_mask != "none":
        raise ConfigError(
            f"env.action_mask={config.action_mask}: {config.id} runs in Rust, where environments have no "
            "masks; add them with a wrapper (env.wrappers), or set env.action_mask=none"
        )
    if is_native and config.critic_obs:
        raise ConfigError(
            f"env.critic_obs={list(config.critic_obs)}: {config.id} runs in Rust, without parts or infos; "
            "add them with a wrapper (env.wrappers), or leave env.critic_obs out"
        )
    if config.precision != "f64" and not is_native:
        raise ConfigError(
            f"env.precision={config.precision} needs a native environment; {config.id} runs in "
            f"Gymnasium here{gymnasium_only and f' ({gymnasium_only})'}"
            f"; native ids are {', '.join(native_env_ids())}; use env.precision=f64"
        )
    return is_native


def require_native(config: EnvConfig, algo: str, source: EnvLike | None = None) -> None:
    """Raise `ConfigError` for an environment that Python steps: `algo` needs one that runs in Rust."""
    if source is not None or not uses_native(config):
        raise ConfigError(
            f"env={config.id}: {algo} collects in Rust and steps only native environments: "
            f"{', '.join(native_env_ids())}; use one of them, or algo=ppo, which steps any"
        )


def unwrapped_factory(
    config: EnvConfig, source: EnvLike | None = None, render_mode: str | None = None
) -> EnvFactory:
    """Return a callable that makes one fresh environment with the configured arguments and time limit.

    A native environment (`NativeGymEnv`) also keeps its own limit, so that a longer one raises `ConfigError`.
    """
    engine_factory = engine_factory_for(config, source)
    if engine_factory is not None:
        if render_mode is not None:
            raise ConfigError(
                f"{config.id} is stepped by an engine (env.backend={config.backend}) that cannot render"
            )
        return lambda: SingleEngineEnv(lambda n_envs: engine_factory(n_envs, False), config.id)
    options = _make_arguments(config) if source is None else dict(config.kwargs)
    make = source_factory(config.id if source is None else source, options, render_mode)
    limit = config.max_episode_steps
    if limit is None:
        return make
    return lambda: _wrap_or_close(make(), lambda env: _with_time_limit(env, config.id, limit))


def _make_arguments(config: EnvConfig) -> dict[str, Any]:
    """Return the arguments for `gymnasium.make`."""
    arguments = dict(config.kwargs)
    for key in ("max_episode_steps", "repeat_action_probability"):
        if key in arguments and getattr(config, key) is not None:
            raise ConfigError(f"env.{key} and env.kwargs.{key} set the same option; leave one of them out")
    if config.max_episode_steps is not None:
        arguments["max_episode_steps"] = config.max_episode_steps
    return arguments | ale_arguments(config) if is_ale(config.id) else arguments


def wrapped_factory(
    config: EnvConfig,
    source: EnvLike | None = None,
    render_mode: str | None = None,
    training: bool = False,
) -> EnvFactory:
    """Return a callable that makes one fresh environment, wrapped as configured.

    `training` decides whether reward wrappers are included.
    """
    make = unwrapped_factory(config, source, render_mode)
    add_masks = mask_wrapper(config)
    if engine_factory_for(config, source) is not None:
        return lambda: _wrap_or_close(make(), add_masks)  # an engine has no other wrappers
    add_wrappers = make_wrapper(config, training)
    return lambda: _wrap_or_close(
        make(), lambda env: add_masks(add_wrappers(_require_spaces(env, config.id)))
    )


def _wrap_or_close(
    env: gym.Env[Any, Any], wrap: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]
) -> gym.Env[Any, Any]:
    """Wrap the environment; close it if wrapping fails."""
    with close_on_error(env, None):
        return wrap(env)


@dataclass(frozen=True)
class EvalEnvFactory:
    """Makes fresh environments for evaluations, wrapped as configured.

    `EnvError` if the factory returns one object twice in this process, or one of `training_objects`: the
    objects that training steps, beneath their wrappers (`list_unwrapped`).
    """

    config: EnvConfig
    source: EnvLike | None = None

    def open_rendering(
        self, render_mode: str, observations: ObservationCodec, training_objects: Collection[object] = ()
    ) -> LocalEvalEnvs:
        """Open one environment that renders; it must run in this process."""
        return self._open_local(1, render_mode, observations, training_objects)

    def open(
        self,
        n_slots: int,
        seed: int,
        observations: ObservationCodec,
        training_objects: Collection[object] = (),
    ) -> EvalEnvs:
        """Open `n_slots` environments, in supervised worker processes if training uses them.

        If a process dies or hangs, all of its episodes are replayed. To keep these few, there are up to four
        processes per CPU.
        """
        config = self.config
        if config.workers != "subprocess":
            return self._open_local(n_slots, None, observations, training_objects)
        per_worker = config.worker_envs or envs_per_worker(-(-n_slots // 4))
        limits = (config.step_timeout, config.max_restarts, per_worker)
        factories = [wrapped_factory(config, self.source)] * n_slots
        return SupervisedEvalEnvs(factories, seed, config.id, observations, *limits)

    def _open_local(
        self,
        n_slots: int,
        render_mode: str | None,
        observations: ObservationCodec,
        training_objects: Collection[object],
    ) -> LocalEvalEnvs:
        config = self.config
        envs = make_all([wrapped_factory(config, self.source, render_mode)] * n_slots)
        require_distinct_envs(envs, config.id, training_objects)
        return LocalEvalEnvs(envs, observations, config.id)


def copy_env_source(source: EnvLike | None) -> EnvLike | None:
    """Return what an algorithm keeps: `None` for an id, a copy of a `gymnasium.Env`, else `source` itself.

    With a copy, later changes to the user's object do not reach evaluations.
    """
    if isinstance(source, gym.Env):
        return _copy_factory(source, {})()
    return None if isinstance(source, str) else source


def make_vec(
    config: EnvConfig, seed: int, source: EnvLike | None = None, keep_infos: bool = False
) -> VectorEnv:
    """Make the vectorised training environment; `keep_infos` for a source of batches that reads `infos`."""
    engine_factory = engine_factory_for(config, source)
    if engine_factory is not None:
        return make_engine(config, engine_factory, seed, keep_infos, source)
    native_class = native_env_class(config.id) if source is None and uses_native(config) else None
    if native_class is not None:
        name = config.id.rpartition(":")[2]
        return NativeVecEnv(name, config.n_envs, seed, config.precision, native_class)
    if config.backend not in ("auto", "gymnasium"):
        raise ConfigError(
            f"env.backend={config.backend} needs an environment id, got an environment object; use auto"
        )
    if source is not None and config.precision != "f64":
        raise ConfigError(
            f"env.precision={config.precision} needs a native environment id, got an environment "
            "object; use f64"
        )
    factories = [wrapped_factory(config, source, training=True)] * config.n_envs
    if config.record_every:
        factories[0] = _recording_factory(config, source)
    if config.workers == "subprocess":
        return SupervisedVecEnv(
            factories,
            seed,
            config.id,
            config.step_timeout,
            keep_infos,
            config.max_restarts,
            config.worker_envs,
            config.seeding,
        )
    return SyncGymVecEnv(factories, seed, config.id, keep_infos, config.seeding)


def source_factory(
    source: EnvLike, kwargs: Mapping[str, Any] | None = None, render_mode: str | None = None
) -> EnvFactory:
    """Return a callable that makes fresh environments from an id, an environment, or a callable."""
    render_options = {"render_mode": render_mode} if render_mode else {}
    if isinstance(source, str):
        spec = with_class_object(find_spec(source))

        def make_registered() -> gym.Env[Any, Any]:
            if render_mode == "rgb_array":
                choose_mujoco_gl(spec.entry_point)
            # a new copy each time: an environment may change a list or a dict that it is given
            options = unwrap(kwargs or {}) | render_options
            return gym.make(spec, disable_env_checker=True, **options)

        return lambda: _make_or_raise(source, make_registered)
    if kwargs:
        raise ConfigError(
            f"env.kwargs={dict(kwargs)} need an environment id; give them to the environment where "
            "you make it"
        )
    if isinstance(source, gym.Env):
        return _copy_factory(source, render_options)
    if isinstance(source, gym.vector.VectorEnv) or not callable(source):
        raise ConfigError(
            f"{source!r} is not an environment: expected an id, a gymnasium.Env or a callable making one"
        )
    _require_no_arguments(source)
    return lambda: _make_checked(cast(EnvFactory, source))


def is_not_gym_env_error(error: BaseException) -> bool:
    """Tell whether this is Gymnasium's error for an id that makes an object other than a `gymnasium.Env`."""
    return isinstance(error, TypeError) and str(error).startswith(
        ("The environment must inherit from", "Gym is incompatible with Gymnasium")
    )


def _recording_factory(config: EnvConfig, source: EnvLike | None) -> EnvFactory:
    """Return a factory of training environments that render and record some episodes."""
    require_video()
    make = wrapped_factory(config, source, "rgb_array", training=True)
    return lambda: EpisodeVideoRecorder(make(), config.record_every)


def _with_time_limit(env: gym.Env[Any, Any], name: str, limit: int) -> gym.Env[Any, Any]:
    """Add a time limit; `ConfigError` if a native environment's own limit is shorter."""
    unwrapped = env.unwrapped
    if isinstance(unwrapped, NativeGymEnv) and unwrapped.core.max_episode_steps < limit:
        raise ConfigError(
            f"env.max_episode_steps={limit}: {name} is a native environment whose own limit is "
            f"{unwrapped.core.max_episode_steps}; expected no more than that"
        )
    return with_time_limit(env, limit)


def _make_or_raise(name: str, make: Callable[[], gym.Env[Any, Any]]) -> gym.Env[Any, Any]:
    try:
        with log_mujoco_warnings():
            return make()
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        # An ImportError that is not a ModuleNotFoundError explains itself, such as Gymnasium's for -v3 of
        # MuJoCo.
        is_missing = isinstance(error, (gym.error.DependencyNotInstalled, ModuleNotFoundError))
        extras = (v for k, v in _EXTRAS.items() if is_missing and k in str(error).lower())
        hints = map(install_command, extras)
        hint = next(hints, None)
        raise MissingExtraError(
            f"env={name} needs a package that is not installed: {hint or error}"
        ) from error
    except gym.error.Error as error:
        raise ConfigError(f"env={name} cannot be made: {error}") from error
    except RloxError:
        raise
    except (Exception, SystemExit) as error:
        if not isinstance(error, TypeError):
            raise EnvError(f"env={name} fails when it is made: {describe_error(error)}") from error
        cause = error.__cause__ or error  # Gymnasium's text would include the values of all arguments
        if is_not_gym_env_error(error):
            match = re.search(r"actual class: <class '(.*?)'>", str(error))
            raise EnvError(
                f"env={name} makes {match[1] if match else 'an environment of Gym'}, expected a "
                "gymnasium.Env; derive its class from gymnasium.Env"
            ) from error
        raise ConfigError(f"env={name}: env.kwargs do not fit: {cause}") from error


def _copy_factory(env: gym.Env[Any, Any], options: Mapping[str, Any]) -> EnvFactory:
    """Return a factory of copies of `env`: deep copies, or, with `options`, new ones made from its spec."""

    def duplicate() -> gym.Env[Any, Any]:
        try:
            with log_mujoco_warnings():
                if options and env.spec is not None:  # make a new one with this render_mode
                    return gym.make(env.spec, **options)
                return copy.deepcopy(env)
        except Exception as error:
            raise ConfigError(
                f"{env} cannot be copied ({error}); pass a callable that makes it instead: "
                "PPO(lambda: MyEnv())"
            ) from error

    return duplicate


def _require_no_arguments(factory: Callable[..., Any]) -> None:
    """Raise `ConfigError` for a factory that cannot be called as `factory()`."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # without an inspectable signature
        return
    try:
        signature.bind()
    except TypeError as error:
        raise ConfigError(
            f"the environment factory {getattr(factory, '__name__', factory)!r:.60} is called without "
            f"arguments: {error}; give one that needs none, lambda: MyEnv(...)"
        ) from error


def _make_checked(make: EnvFactory) -> gym.Env[Any, Any]:
    with log_mujoco_warnings():
        env = make()
    if not isinstance(env, gym.Env):
        raise EnvError(f"the environment factory returned {type(env).__name__}, expected gymnasium.Env")
    return env


def _require_spaces(env: gym.Env[Any, Any], name: str) -> gym.Env[Any, Any]:
    """Raise `EnvError` unless both spaces are set: `gymnasium.Env` only annotates these attributes."""
    for space in ("observation_space", "action_space"):
        value = None
        with suppress(AttributeError):
            value = getattr(env, space)
        if not isinstance(value, spaces.Space):
            actual = "no" if value is None else f"{type(value).__name__} for its"
            raise EnvError(
                f"{name} has {actual} {space}, expected a space of gymnasium.spaces; set self.{space} in "
                "its __init__"
            )
    return env
