"""What an algorithm needs before it can be assembled: its configuration, its device, its threads."""

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
from rlox.configs.new_runs import require_new
from rlox.configs.secrets import looked_up
from rlox.devices import torch_threads
from rlox.disk import path_of
from rlox.envs.make import EnvSource
from rlox.errors import ConfigError, UnknownNameError
from rlox.presets import tuned_options

__all__ = [
    "DEFAULT_ENV",
    "config_from_arguments",
    "env_name",
    "environment_of",
    "first_line",
    "torch_threads",
    "tuned_arguments",
    "usable_device",
]

DEFAULT_ENV = "CartPole-v1"  # of a façade that is given none
NAMED = {
    "callbacks",
    "env",
    "env_id",
    "logger",
    "n_envs",
    "seed",
}  # arguments that each façade has by themselves


def _hint(name: str, known: Iterable[str]) -> str:
    """What was meant by an argument that is not of the algorithm."""
    if meant := _HABITS.get(name):
        return f"; here that is {meant}"
    owners = [algo for algo, kind in sorted(ALGO_CONFIGS.items()) if name in _fields(kind)]
    return (f"; it belongs to {', '.join(owners)}" if owners else "") + nearest(name, known)


def config_from_arguments(
    algo: str, env_id: EnvSource, n_envs: int | None, seed: int, options: Mapping[str, Any]
) -> RunConfig:
    """The run configuration that a façade's arguments describe; without `n_envs` the algorithm's."""
    in_algo = _fields(ALGO_CONFIGS[algo]) - {"name"}
    if "hidden" in options and "hidden" not in in_algo and "net_arch" in in_algo:
        options = _with_layers(options)
    # both have a `backend`: the plain name is the algorithm's, the environment's is `env_backend`
    in_env = _fields(EnvConfig) - {"id", "n_envs", "backend"}
    in_buffer = {key for kind in ALGO_CONFIGS[algo].buffers for key in _buffer_keys(kind)}
    known = in_algo | in_env | in_buffer | {"device", "env_backend", "env_kwargs", "init_from"}
    for name in options:
        if name not in known:
            raise UnknownNameError(
                f"unknown argument '{name}' for {algo}{_hint(name, known | NAMED)}"
            )
    name = env_name(env_id)
    env = _ready_number(env_id) if n_envs is None else {"n_envs": n_envs}
    env |= {k: v for k, v in options.items() if k in in_env}
    if "env_kwargs" in options:
        env["kwargs"] = options["env_kwargs"]
    if "env_backend" in options:
        env["backend"] = options["env_backend"]
    algo_options = {k: v for k, v in options.items() if k in in_algo}
    buffer = {_RENAMED.get(k, k): v for k, v in options.items() if k in in_buffer}
    require_one_schedule(algo, algo_options)
    described = make(ALGO_CONFIGS[algo], {"name": algo, **algo_options}, "algo")
    chosen = buffer.pop("name", None) or described.buffer
    _require_keys(chosen, buffer)
    run = make_run(
        {
            "algo": {"name": algo, **algo_options},
            "buffer": {"name": chosen, **buffer},
            "env": {"id": name, **env},
            "seed": seed,
            "device": options.get("device", "auto"),
            "init_from": _path(options.get("init_from")),
        }
    )
    require_new(run)
    if "normalize_rule" in options:
        run.env.require_normalizes()
    run = looked_up(run)  # what the caller asks for of the environment is theirs
    idle = idle_workers(run.env)
    for line in [*([idle] if idle else []), *run.algo.advice(run.env)]:
        warnings.warn(line, UserWarning, stacklevel=3)  # where the façade was called
    return run


def _require_keys(chosen: Any, buffer: Mapping[str, Any]) -> None:
    """`ConfigError` for a key of another buffer than the chosen one."""
    if not isinstance(chosen, str) or chosen not in BUFFER_CONFIGS:
        return  # refused by its name
    for key, value in buffer.items():
        owners = [name for name, kind in BUFFER_CONFIGS.items() if key in _fields(kind)]
        if chosen not in owners:
            raise ConfigError(
                f"{key}={value!r:.60}: buffer={chosen} has no {key}, which belongs to "
                f"buffer={' or '.join(owners)}; leave one of them out"
            )


def _fields(kind: type[Any]) -> set[str]:
    """The names of the fields of a configuration."""
    return {f.name for f in fields(kind)}


def _with_layers(options: Mapping[str, Any]) -> dict[str, Any]:
    """The original rlox's `hidden`, the width of two hidden layers, as `net_arch`."""
    rest = {name: value for name, value in options.items() if name != "hidden"}
    if "net_arch" in rest:
        raise ConfigError(
            "hidden and net_arch are two names of the same argument; give one of them"
        )
    hidden = options["hidden"]
    return {**rest, "net_arch": hidden if isinstance(hidden, Sequence) else (hidden, hidden)}


# What Stable-Baselines3 has in the environment's place.
_POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy")


def environment_of(given: EnvSource, default: EnvSource, options: dict[str, Any]) -> EnvSource:
    """The environment that a façade was given: as `env_id`, or as `env`, which is taken out of `options`."""
    if isinstance(given, str) and given in _POLICIES:
        raise ConfigError(
            f"'{given}' stands where the environment does: give that alone, e.g. PPO('CartPole-v1'); "
            "the policy follows from its spaces, or is a module of your own: policy=..."
        )
    env: EnvSource | None = options.pop("env", None)
    if env is None:
        return given
    if given is not default:
        raise ConfigError("env and env_id are two names of the same argument; give one of them")
    return env


def tuned_arguments(
    algo: str, env: EnvSource, preset: str | None, options: dict[str, Any]
) -> tuple[dict[str, Any], int]:
    """What a preset gives a façade under `options`, and its total; a ready environment keeps its number."""
    return tuned_options(algo, preset or env_name(env), _ready_number(env) | options)


def _ready_number(env: EnvSource) -> dict[str, Any]:
    """`n_envs` of a ready vectorised environment, which cannot have another one; else nothing."""
    return {"n_envs": env.num_envs} if isinstance(env, gym.vector.VectorEnv) else {}


def _path(given: str | PathLike[str] | None) -> str | None:
    if given is None:
        return None
    path_of(given, "init_from")
    return fspath(given)


# What others call things, where spelling does not lead there.
_HABITS = {
    "policy_kwargs": "net_arch, critic_net_arch and activation",
    "lr": "learning_rate",
    "callback": "callbacks",
    "verbose": "train(total, progress=True)",
    "tensorboard_log": "the command line's: rlox train logger=tensorboard",
    "clip_range_vf": "clip_vloss",
    "action_noise": "exploration_noise, its standard deviation",
    "target_policy_noise": "target_noise",
    "target_noise_clip": "noise_clip",
    "replay_buffer_class": "buffer, e.g. buffer='prioritized' or hindsight='future'",
    "optimize_memory_usage": "what the buffer does anyway: observations are stored once",
}


# What a façade calls a key of the buffer: Stable-Baselines3's name, and one that says whose it is.
_RENAMED = {"buffer_size": "capacity", "buffer": "name", "buffer_path": "path"}


def _buffer_keys(kind: str) -> set[str]:
    """The arguments that say something of a buffer."""
    keys = _fields(BUFFER_CONFIGS[kind])
    renamed = {argument for argument, key in _RENAMED.items() if key in keys}
    return (keys - set(_RENAMED.values())) | renamed


def usable_device(name: str) -> str:
    """The device of `device=name`, if it is there; `ConfigError` if not."""
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
    """The first line of an error's message, with the one after it if it ends in a colon; or its type."""
    first, *more = [line.strip() for line in str(error).splitlines()] or [type(error).__name__]
    return f"{first} {more[0]}" if more and first.endswith(":") else first


def env_name(source: EnvSource) -> str:
    """What `env.id` says of an environment: its id, or the name of the object in angle brackets."""
    if isinstance(source, str):
        return source
    name = getattr(source, "__qualname__", None) or type(source).__name__
    return f"<{name}>"
