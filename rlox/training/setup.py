"""Preparation of an algorithm: its configuration from arguments, its environment, its device."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from os import PathLike, fspath
from typing import Any

import gymnasium as gym

from rlox.configs import (
    ALGO_CONFIGS,
    BUFFER_CONFIGS,
    EnvConfig,
    RunConfig,
    make,
    make_run,
    nearest,
)
from rlox.configs.advice import idle_workers
from rlox.configs.check import require_one_schedule
from rlox.configs.new_run_checks import check_new_run
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
COMMON_ARGUMENTS = {
    "callbacks",
    "env",
    "env_id",
    "logger",
    "n_envs",
    "seed",
}  # arguments that every façade declares itself


def _argument_hint(name: str, known_names: Iterable[str]) -> str:
    """Return a hint for an unknown argument: what rlox has instead, or similar names."""
    if replacement := _FOREIGN_ARGUMENTS.get(name):
        return f"; here that is {replacement}"
    algorithms = [algo for algo, kind in sorted(ALGO_CONFIGS.items()) if name in _field_names(kind)]
    return (f"; it belongs to {', '.join(algorithms)}" if algorithms else "") + nearest(name, known_names)


def config_from_arguments(
    algo: str, env_id: EnvLike, n_envs: int | None, seed: int, options: Mapping[str, Any]
) -> RunConfig:
    """Make the run configuration of a façade's arguments; `n_envs` None: the algorithm's default."""
    algo_keys = _field_names(ALGO_CONFIGS[algo]) - {"name"}
    if "hidden" in options and "hidden" not in algo_keys and "net_arch" in algo_keys:
        options = _expand_hidden(options)
    # algorithm and environment both have a `backend`: here `backend` is the algorithm's
    env_keys = _field_names(EnvConfig) - {"id", "n_envs", "backend"}
    buffer_keys = {key for kind in ALGO_CONFIGS[algo].buffers for key in _buffer_keys(kind)}
    known_arguments = (
        algo_keys | env_keys | buffer_keys | {"device", "env_backend", "env_kwargs", "init_from"}
    )
    for name in options:
        if name not in known_arguments:
            raise UnknownNameError(
                f"unknown argument '{name}' for "
                f"{algo}{_argument_hint(name, known_arguments | COMMON_ARGUMENTS)}"
            )
    name = env_name(env_id)
    env_options = _vec_env_count(env_id) if n_envs is None else {"n_envs": n_envs}
    env_options |= {k: v for k, v in options.items() if k in env_keys}
    if "env_kwargs" in options:
        env_options["kwargs"] = options["env_kwargs"]
    if "env_backend" in options:
        env_options["backend"] = options["env_backend"]
    algo_options = {k: v for k, v in options.items() if k in algo_keys}
    buffer_options = {_BUFFER_ARGUMENTS.get(k, k): v for k, v in options.items() if k in buffer_keys}
    require_one_schedule(algo, algo_options)
    algo_config = make(ALGO_CONFIGS[algo], {"name": algo, **algo_options}, "algo")
    buffer_name = buffer_options.pop("name", None) or algo_config.default_buffer
    _require_buffer_keys(buffer_name, buffer_options)
    config = make_run(
        {
            "algo": {"name": algo, **algo_options},
            "buffer": {"name": buffer_name, **buffer_options},
            "env": {"id": name, **env_options},
            "seed": seed,
            "device": options.get("device", "auto"),
            "init_from": _path_text(options.get("init_from")),
        }
    )
    check_new_run(config)
    if "normalize_rule" in options:
        config.env.require_normalization()
    config = resolve(config)  # the caller may use any environment variable
    idle_warning = idle_workers(config.env)
    for line in [*([idle_warning] if idle_warning else []), *config.algo.advice(config.env)]:
        warnings.warn(line, UserWarning, stacklevel=3)  # points at the caller of the façade
    return config


def _require_buffer_keys(buffer_name: Any, buffer_options: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for a key that the chosen buffer does not have."""
    if not isinstance(buffer_name, str) or buffer_name not in BUFFER_CONFIGS:
        return  # `make_run` refuses it
    for key, value in buffer_options.items():
        buffer_names = [
            name for name, config_class in BUFFER_CONFIGS.items() if key in _field_names(config_class)
        ]
        if buffer_name not in buffer_names:
            raise ConfigError(
                f"{key}={value!r:.60}: buffer={buffer_name} has no {key}, which belongs to "
                f"buffer={' or '.join(buffer_names)}; leave one of them out"
            )


def _field_names(config_class: type[Any]) -> set[str]:
    """Return the field names of a configuration."""
    return {f.name for f in fields(config_class)}


def _expand_hidden(options: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `hidden` of the original rlox, the width of two hidden layers, into `net_arch`."""
    remaining = {name: value for name, value in options.items() if name != "hidden"}
    if "net_arch" in remaining:
        raise ConfigError("hidden and net_arch are two names of the same argument; give one of them")
    hidden = options["hidden"]
    return {**remaining, "net_arch": hidden if isinstance(hidden, Sequence) else (hidden, hidden)}


# Policy names of Stable-Baselines3, which come first there; in rlox the environment comes first.
_SB3_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy")


def resolve_env(env_id: EnvLike, default: EnvLike, options: dict[str, Any]) -> EnvLike:
    """Return the environment that was given as `env_id` or as `env`, which is removed from `options`."""
    if isinstance(env_id, str) and env_id in _SB3_POLICIES:
        raise ConfigError(
            f"'{env_id}' is in the environment's place: give the environment alone, e.g. PPO('CartPole-v1'); "
            "its spaces determine the policy, or pass a module of your own: policy=..."
        )
    env_option: EnvLike | None = options.pop("env", None)
    if env_option is None:
        return env_id
    if env_id is not default:
        raise ConfigError("env and env_id are two names of the same argument; give one of them")
    return env_option


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


# A façade's arguments for buffer keys: one as in Stable-Baselines3, and others that mention the buffer.
_BUFFER_ARGUMENTS = {"buffer_size": "capacity", "buffer": "name", "buffer_path": "path"}


def _buffer_keys(kind: str) -> set[str]:
    """Return the arguments that configure a buffer."""
    keys = _field_names(BUFFER_CONFIGS[kind])
    renamed_keys = {argument for argument, key in _BUFFER_ARGUMENTS.items() if key in keys}
    return (keys - set(_BUFFER_ARGUMENTS.values())) | renamed_keys


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
