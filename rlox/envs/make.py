"""From an environment's configuration to environments: one to look at, or `n_envs` to train on."""

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
from rlox.configs.atari import is_ale
from rlox.configs.secrets import revealed
from rlox.envs.base import VectorEnv
from rlox.envs.engines.atari import ale_arguments
from rlox.envs.engines.makers import VectorSource, building, engine_for, maker_of
from rlox.envs.engines.single import Single
from rlox.envs.films import FilmedEpisodes, require_video
from rlox.envs.gym_vec import EnvFactory, SyncGymVecEnv, opened
from rlox.envs.headless import choose_mujoco_gl
from rlox.envs.identity import require_apart
from rlox.envs.ids import find_spec
from rlox.envs.masks import masking
from rlox.envs.native import NativeVecEnv, native_engine
from rlox.envs.native_gym import NativeGymEnv
from rlox.envs.simulators import mujoco_warnings_logged
from rlox.envs.spaces import ObservationCodec
from rlox.envs.stages import LocalStage, Stage
from rlox.envs.workers.crew import share
from rlox.envs.workers.pool import SupervisedVecEnv
from rlox.envs.workers.registered import without_script
from rlox.envs.workers.stage import SupervisedStage
from rlox.envs.wrapping import limited, wrapping
from rlox.errors import ConfigError, EnvError, MissingExtraError, RloxError
from rlox.extras import install
from rlox.importing import failure

__all__ = [
    "EnvSource",
    "Stages",
    "as_given",
    "bare_factory",
    "factory_of",
    "is_no_environment",
    "make_vec",
    "require_native",
    "single_factory",
    "uses_native",
]

# What a user may hand over in place of an id.
EnvSource = str | gym.Env[Any, Any] | EnvFactory | VectorSource

# The extra to install when the import that an id needs is missing, by a word of that error.
_EXTRAS = {"box2d": "box2d", "minigrid": "minigrid", "mujoco": "mujoco", "pygame": "video"}


def uses_native(config: EnvConfig) -> bool:
    """Whether this configuration runs in Rust; an explicit `native` that cannot is an error.

    Whatever is put around an environment, or changes how it is made, is there in Gymnasium only.
    """
    around = " and ".join(config.put_around)
    native = not around and native_engine(config.id) is not None
    if config.backend == "native" and not native:
        raise ConfigError(
            f"env.backend=native cannot run {config.id}{around and f' with {around}'}"
            f"; native ids are {', '.join(native_env_ids())}; use env.backend=auto"
        )
    native &= config.backend in ("auto", "native")
    if native and config.action_mask != "none":
        raise ConfigError(
            f"env.action_mask={config.action_mask}: {config.id} runs in Rust, where environments have no "
            "masks; put them around it with env.wrappers, or set env.action_mask=none"
        )
    if config.precision != "f64" and not native:
        raise ConfigError(
            f"env.precision={config.precision} needs a native environment; {config.id} runs in "
            f"Gymnasium here{around and f' ({around})'}"
            f"; native ids are {', '.join(native_env_ids())}; use env.precision=f64"
        )
    return native


def require_native(config: EnvConfig, algo: str, source: EnvSource | None = None) -> None:
    """Raise `ConfigError` for an environment that Python steps, where `algo` needs one that runs in Rust."""
    if source is not None or not uses_native(config):
        raise ConfigError(
            f"env={config.id}: {algo} collects in Rust and steps native environments only, "
            f"{', '.join(native_env_ids())}; use one of them, or algo=ppo, which steps any"
        )


def bare_factory(
    config: EnvConfig, source: EnvSource | None = None, render_mode: str | None = None
) -> EnvFactory:
    """A callable that makes one fresh environment with the configured arguments and time limit.

    A native one (`NativeGymEnv`) keeps its own limit besides, so no longer one can be asked of it.
    """
    maker = maker_of(config, source)
    if maker is not None:
        if render_mode is not None:
            raise ConfigError(
                f"{config.id} is stepped by an engine (env.backend={config.backend}) that draws nothing"
            )
        return lambda: Single(lambda n_envs: maker(n_envs, False), config.id)
    options = _arguments(config) if source is None else dict(config.kwargs)
    make = factory_of(config.id if source is None else source, options, render_mode)
    limit = config.max_episode_steps
    if limit is None:
        return make
    return lambda: _around(make(), lambda env: _within(env, config.id, limit))


def _arguments(config: EnvConfig) -> dict[str, Any]:
    """What `gymnasium.make` is told."""
    given = dict(config.kwargs)
    for key in ("max_episode_steps", "repeat_action_probability"):
        if key in given and getattr(config, key) is not None:
            raise ConfigError(f"env.{key} and env.kwargs.{key} say the same; leave one of them out")
    if config.max_episode_steps is not None:
        given["max_episode_steps"] = config.max_episode_steps
    return given | ale_arguments(config) if is_ale(config.id) else given


def single_factory(
    config: EnvConfig,
    source: EnvSource | None = None,
    render_mode: str | None = None,
    training: bool = False,
) -> EnvFactory:
    """A callable that makes one fresh environment, wrapped as configured.

    `training` decides whether what changes rewards is around it.
    """
    make = bare_factory(config, source, render_mode)
    masked = masking(config)
    if maker_of(config, source) is not None:
        return lambda: _around(make(), masked)  # an engine has nothing else
    wrapped = wrapping(config, training)
    return lambda: _around(make(), lambda env: masked(wrapped(_with_spaces(env, config.id))))


def _around(
    env: gym.Env[Any, Any], wrap: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]
) -> gym.Env[Any, Any]:
    """The environment with what is put around it; closed where that cannot be."""
    with building(env, None):
        return wrap(env)


@dataclass(frozen=True)
class Stages:
    """Fresh environments to evaluate in, wrapped as configured.

    `EnvError` where what makes them gives one object twice in this process, or one of `training`: the
    objects that training steps, `beneath` their wrappers.
    """

    config: EnvConfig
    source: EnvSource | None = None

    def shown(
        self, render_mode: str, observations: ObservationCodec, training: Collection[object] = ()
    ) -> LocalStage:
        """One environment that draws pictures, which it can in this process only."""
        return self._local(1, render_mode, observations, training)

    def open(
        self,
        places: int,
        seed: int,
        observations: ObservationCodec,
        training: Collection[object] = (),
    ) -> Stage:
        """That many environments, in supervised processes where training has such.

        There are four processes a CPU, as all episodes of one are played again where one of them fails.
        """
        config = self.config
        if config.workers != "subprocess":
            return self._local(places, None, observations, training)
        many = config.worker_envs or share(-(-places // 4))
        limits = (config.step_timeout, config.max_restarts, many)
        factories = [single_factory(config, self.source)] * places
        return SupervisedStage(factories, seed, config.id, observations, *limits)

    def _local(
        self,
        places: int,
        render_mode: str | None,
        observations: ObservationCodec,
        training: Collection[object],
    ) -> LocalStage:
        config = self.config
        envs = opened([single_factory(config, self.source, render_mode)] * places)
        require_apart(envs, config.id, training)
        return LocalStage(envs, observations, config.id)


def as_given(source: EnvSource | None) -> EnvSource | None:
    """What an algorithm makes environments of from now on: of an object a copy, of an id nothing.

    What the user does with the object meanwhile is not in evaluations then.
    """
    if isinstance(source, gym.Env):
        return _copies_of(source, {})()
    return None if isinstance(source, str) else source


def make_vec(
    config: EnvConfig, seed: int, source: EnvSource | None = None, keep_infos: bool = False
) -> VectorEnv:
    """The vectorised training environment; `keep_infos` for a source that reads its `infos`."""
    maker = maker_of(config, source)
    if maker is not None:
        return engine_for(config, maker, seed, keep_infos, source)
    engine = native_engine(config.id) if source is None and uses_native(config) else None
    if engine is not None:
        name = config.id.rpartition(":")[2]
        return NativeVecEnv(name, config.n_envs, seed, config.precision, engine)
    if config.backend not in ("auto", "gymnasium"):
        raise ConfigError(
            f"env.backend={config.backend} needs an environment id, got an environment object; use auto"
        )
    if source is not None and config.precision != "f64":
        raise ConfigError(
            f"env.precision={config.precision} needs a native environment id, got an environment "
            "object; use f64"
        )
    factories = [single_factory(config, source, training=True)] * config.n_envs
    if config.record_every:
        factories[0] = _filmed(config, source)
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


def factory_of(
    source: EnvSource, kwargs: Mapping[str, Any] | None = None, render_mode: str | None = None
) -> EnvFactory:
    """A callable making fresh environments from an id, an environment, or a callable."""
    drawn = {"render_mode": render_mode} if render_mode else {}
    if isinstance(source, str):
        spec = without_script(find_spec(source))

        def registered() -> gym.Env[Any, Any]:
            if render_mode == "rgb_array":
                choose_mujoco_gl(spec.entry_point)
            # of its own each time: an environment may write into a list or a dict that it is given
            options = revealed(kwargs or {}) | drawn
            return gym.make(spec, disable_env_checker=True, **options)

        return lambda: _call(source, registered)
    if kwargs:
        raise ConfigError(
            f"env.kwargs={dict(kwargs)} need an environment id; give them to the environment where "
            "you make it"
        )
    if isinstance(source, gym.Env):
        return _copies_of(source, drawn)
    if isinstance(source, gym.vector.VectorEnv) or not callable(source):
        raise ConfigError(
            f"{source!r} is not an environment: expected an id, a gymnasium.Env or a callable making one"
        )
    _require_no_arguments(source)
    return lambda: _checked(cast(EnvFactory, source))


def is_no_environment(error: BaseException) -> bool:
    """Whether it is Gymnasium's word on something that an id makes and that is no `gymnasium.Env`."""
    return isinstance(error, TypeError) and str(error).startswith(
        ("The environment must inherit from", "Gym is incompatible with Gymnasium")
    )


def _filmed(config: EnvConfig, source: EnvSource | None) -> EnvFactory:
    """A training environment that draws pictures, of which some episodes are filmed."""
    require_video()
    make = single_factory(config, source, "rgb_array", training=True)
    return lambda: FilmedEpisodes(make(), config.record_every)


def _within(env: gym.Env[Any, Any], name: str, limit: int) -> gym.Env[Any, Any]:
    """The environment with a time limit, which a native one can only have below its own."""
    own = env.unwrapped
    if isinstance(own, NativeGymEnv) and own.core.max_episode_steps < limit:
        raise ConfigError(
            f"env.max_episode_steps={limit}: {name} is a native environment whose own limit is "
            f"{own.core.max_episode_steps}; expected no more than that"
        )
    return limited(env, limit)


def _call(name: str, make: Callable[[], gym.Env[Any, Any]]) -> gym.Env[Any, Any]:
    try:
        with mujoco_warnings_logged():
            return make()
    except (gym.error.DependencyNotInstalled, ImportError) as error:
        # What names an engine without missing it, as Gymnasium's word on -v3 of MuJoCo, says all itself.
        absent = isinstance(error, (gym.error.DependencyNotInstalled, ModuleNotFoundError))
        extras = (v for k, v in _EXTRAS.items() if absent and k in str(error).lower())
        hints = map(install, extras)
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
            raise EnvError(f"env={name} fails when it is made: {failure(error)}") from error
        told = error.__cause__ or error  # Gymnasium's own text has the values of all arguments
        if is_no_environment(error):
            what = re.search(r"actual class: <class '(.*?)'>", str(error))
            raise EnvError(
                f"env={name} makes {what[1] if what else 'an environment of Gym'}, expected a "
                "gymnasium.Env; derive its class from gymnasium.Env"
            ) from error
        raise ConfigError(f"env={name}: env.kwargs do not fit: {told}") from error


def _copies_of(env: gym.Env[Any, Any], options: Mapping[str, Any]) -> EnvFactory:
    """Fresh copies of an instance: deep ones, which keep what was changed on it; else from its spec."""

    def duplicate() -> gym.Env[Any, Any]:
        try:
            with mujoco_warnings_logged():
                if options and env.spec is not None:  # to be made anew with a render_mode
                    return gym.make(env.spec, **options)
                return copy.deepcopy(env)
        except Exception as error:
            raise ConfigError(
                f"{env} cannot be copied ({error}); pass a callable that makes it instead: "
                "PPO(lambda: MyEnv())"
            ) from error

    return duplicate


def _require_no_arguments(make: Callable[..., Any]) -> None:
    """`ConfigError` for a factory that cannot be called as `make()`."""
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # of one that does not say so
        return
    try:
        signature.bind()
    except TypeError as error:
        raise ConfigError(
            f"the environment factory {getattr(make, '__name__', make)!r:.60} is called without arguments: "
            f"{error}; give one that needs none, lambda: MyEnv(...)"
        ) from error


def _checked(make: EnvFactory) -> gym.Env[Any, Any]:
    with mujoco_warnings_logged():
        env = make()
    if not isinstance(env, gym.Env):
        raise EnvError(
            f"the environment factory returned {type(env).__name__}, expected gymnasium.Env"
        )
    return env


def _with_spaces(env: gym.Env[Any, Any], name: str) -> gym.Env[Any, Any]:
    """The environment, whose class only has the names of its spaces until it sets them."""
    for space in ("observation_space", "action_space"):
        found = None
        with suppress(AttributeError):
            found = getattr(env, space)
        if not isinstance(found, spaces.Space):
            is_there = "no" if found is None else f"{type(found).__name__} for its"
            raise EnvError(
                f"{name} has {is_there} {space}, expected a space of gymnasium.spaces; set self.{space} in "
                "its __init__"
            )
    return env
