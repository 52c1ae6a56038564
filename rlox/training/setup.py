"""Preparation of an algorithm: its configuration from arguments, its environment, its device."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import gymnasium as gym

from rlox.configs import (
    ALGO_CONFIGS,
    BUFFER_CONFIGS,
    RunConfig,
    make,
    make_run,
    nearest,
)
from rlox.configs.advice import check_new_run, idle_workers
from rlox.configs.arguments import DEFAULT_SEED, arguments_of
from rlox.configs.check import require_one_schedule
from rlox.configs.secrets import resolve
from rlox.devices import torch_threads
from rlox.disk import parse_path
from rlox.envs.make import EnvLike
from rlox.errors import ConfigError, UnknownNameError
from rlox.presets import preset_options

__all__ = [
    "DEFAULT_ENV",
    "config_from_arguments",
    "env_name",
    "first_line",
    "require_device",
    "resolve_env",
    "torch_threads",
    "tuned_arguments",
]

DEFAULT_ENV = "CartPole-v1"  # of a façade that is given no environment


def _unknown_argument(algo: str, name: str, object_arguments: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown argument, with what rlox has instead, or similar names."""
    arguments = arguments_of(ALGO_CONFIGS[algo])
    hint = nearest(name, {*(o.name for o in arguments.values() if o.is_used), *object_arguments})
    replacements = [o.name for o in arguments.values() if o.field.name == name and name != "name"]
    if replacement := _FOREIGN_ARGUMENTS.get(name) or " or ".join(replacements):
        first_word = re.match(r"\w*", replacement)[0]  # type: ignore[index]  # it always matches
        owners = [] if first_word in {*arguments, *object_arguments} else _algorithms_with(first_word)
        hint = f"; here that is {replacement}" + (f", which {', '.join(owners)} have" if owners else "")
    elif algorithms := _algorithms_with(name):
        hint = f"; it belongs to {', '.join(algorithms)}{hint}"
    return UnknownNameError(f"unknown argument '{name}' for {algo}{hint}")


def _algorithms_with(name: str) -> list[str]:
    """Return the algorithms whose configuration, or whose buffer's, has a field with this argument."""
    arguments = {algo: arguments_of(kind).get(name) for algo, kind in sorted(ALGO_CONFIGS.items())}
    return [
        algo
        for algo, argument in arguments.items()
        if argument and argument.is_used and argument.part in ("algo", "buffer")
    ]


def config_from_arguments(
    algo: str, env_id: EnvLike, options: Mapping[str, Any], object_arguments: Iterable[str] = ()
) -> RunConfig:
    """Make the run configuration of an algorithm's arguments.

    `object_arguments` are the names of its other arguments, for suggestions.
    """
    arguments = arguments_of(ALGO_CONFIGS[algo])
    for name in options:
        if name not in arguments:
            raise _unknown_argument(algo, name, object_arguments)
    if "hidden" in options and arguments["hidden"].is_hidden:
        options = _expand_hidden(options)
    if options.get("n_envs", 0) is None:
        options = {name: value for name, value in options.items() if name != "n_envs"}
    parts: dict[str, dict[str, Any]] = {"": {"seed": DEFAULT_SEED}, "algo": {}, "buffer": {}, "env": {}}
    for name, value in (_vec_env_count(env_id) | dict(options)).items():
        parts[arguments[name].part][arguments[name].field.name] = value
    require_one_schedule(algo, parts["algo"])
    algo_config = make(ALGO_CONFIGS[algo], {"name": algo, **parts["algo"]}, "algo")
    buffer_name = parts["buffer"].pop("name", None) or algo_config.default_buffer
    _require_buffer_keys(buffer_name, parts["buffer"])
    run = parts[""] | {"init_from": _path_text(parts[""].get("init_from"))}
    config = make_run(
        {
            "algo": {"name": algo, **parts["algo"]},
            "buffer": {"name": buffer_name, **parts["buffer"]},
            "env": {"id": env_name(env_id), **parts["env"]},
            **run,
        }
    )
    check_new_run(config)
    if "normalize_rule" in options:
        config.env.require_normalization()
    config = resolve(config)  # the caller may use any environment variable
    idle_warning = idle_workers(config.env)
    for line in [*([idle_warning] if idle_warning else []), *config.algo.advice(config.env)]:
        warnings.warn(line, UserWarning, stacklevel=4)  # points at the caller of the class
    return config


def _require_buffer_keys(buffer_name: Any, buffer_options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for a key that the chosen buffer does not have."""
    if not isinstance(buffer_name, str) or buffer_name not in BUFFER_CONFIGS:
        return  # `make_run` refuses it
    for key, value in buffer_options.items():
        if key not in BUFFER_CONFIGS[buffer_name].__dataclass_fields__:
            buffer_names = [name for name, kind in BUFFER_CONFIGS.items() if key in kind.__dataclass_fields__]
            raise ConfigError(
                f"{key}={value!r:.60}: buffer={buffer_name} has no {key}, which belongs to "
                f"buffer={' or '.join(buffer_names)}; leave one of them out"
            )


def _expand_hidden(options: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `hidden` of the original rlox, the width of two hidden layers, into `net_arch`."""
    remaining = {name: value for name, value in options.items() if name != "hidden"}
    if "net_arch" in remaining:
        raise ConfigError("hidden and net_arch are two names of the same argument; give one of them")
    hidden = options["hidden"]
    if not isinstance(hidden, int | Sequence) or isinstance(hidden, str | bool):
        raise ConfigError(f"hidden={hidden!r:.60}: expected the width of two layers, or a list of widths")
    return {**remaining, "net_arch": hidden if isinstance(hidden, Sequence) else (hidden, hidden)}


# Policy names of Stable-Baselines3, which come first there; in rlox the environment comes first.
_SB3_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy")


def resolve_env(env_id: EnvLike | None, env: EnvLike | None, default: EnvLike) -> EnvLike:
    """Return the environment that was given as `env_id` or as `env`, else the default."""
    if isinstance(env_id, RunConfig):
        raise ConfigError(
            "a RunConfig is in the environment's place: from_config(config) makes the algorithm of a "
            "configuration, and the class of a plugin needs no constructor of its own"
        )
    if isinstance(env_id, str) and env_id in _SB3_POLICIES:
        raise ConfigError(
            f"'{env_id}' is in the environment's place: give the environment alone, e.g. PPO('CartPole-v1'); "
            "its spaces determine the policy, or pass a module of your own: policy=..."
        )
    if env is None:
        return default if env_id is None else env_id
    if env_id is not None and env_id is not default:
        raise ConfigError("env and env_id are two names of the same argument; give one of them")
    return env


def tuned_arguments(
    algo: str, env: EnvLike, preset: str | None, options: dict[str, Any]
) -> tuple[dict[str, Any], int]:
    """Return a preset's arguments, overridden by `options`, and its total number of steps.

    A ready vectorised environment keeps its number of copies.
    """
    return preset_options(algo, preset or env_name(env), _vec_env_count(env) | options)


def _vec_env_count(env: EnvLike) -> dict[str, Any]:
    """Return `n_envs` of a ready vectorised environment, which is fixed; else nothing."""
    return {"n_envs": env.num_envs} if isinstance(env, gym.vector.VectorEnv) else {}


def _path_text(path: str | PathLike[str] | None) -> str | None:
    if path is None:
        return None
    parse_path(path, "init_from")
    return fspath(path)


# Arguments of other libraries, and what rlox has instead; similar spellings need no entry.
_FOREIGN_ARGUMENTS = {
    "policy_kwargs": "net_arch, critic_net_arch and activation",
    "lr": "learning_rate",
    "callback": "callbacks",
    "verbose": "train(total, progress=True)",
    "tensorboard_log": "a command-line setting: rlox train logger=tensorboard",
    "clip_range_vf": "clip_vloss",
    "action_noise": "exploration_noise, its standard deviation",
    "target_policy_noise": "target_noise",
    "target_noise_clip": "noise_clip",
    "replay_buffer_class": "buffer, e.g. buffer='prioritized' or hindsight='future'",
    "optimize_memory_usage": "what the buffer does anyway: observations are stored once",
}


def require_device(name: str) -> str:
    """Return the device of `device=name`; raise `ConfigError` if it is not available."""
    if name == "cpu":
        return "cpu"
    import torch

    try:
        torch.empty(0, device=torch.device(name))
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"device={name} is not available here, device=cpu is: {first_line(error)}"
        ) from error
    return name


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, with the next one if it ends with a colon; or its type."""
    line, *rest = [text.strip() for text in str(error).splitlines()] or [type(error).__name__]
    return f"{line} {rest[0]}" if rest and line.endswith(":") else line


def env_name(source: EnvLike) -> str:
    """Return `env.id` of an environment: its id, or the name of the object in angle brackets."""
    if isinstance(source, str):
        return source
    name = getattr(source, "__qualname__", None) or type(source).__name__
    return f"<{name}>"
