"""What an algorithm needs before it can be assembled: its configuration, its device, its threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import torch

from rlox.configs import ALGO_CONFIGS, EnvConfig, RunConfig, make_run, nearest
from rlox.envs.make import EnvSource
from rlox.errors import ConfigError, UnknownNameError

__all__ = ["config_from_arguments", "first_line", "torch_device", "torch_threads"]


def config_from_arguments(
    algo: str, env_id: EnvSource, n_envs: int, seed: int, options: Mapping[str, Any]
) -> RunConfig:
    """The run configuration that a façade's arguments describe."""
    in_algo = {f.name for f in fields(ALGO_CONFIGS[algo])} - {"name"}
    # both have a `backend`: the plain name is the algorithm's, the environment's is `env_backend`
    in_env = {f.name for f in fields(EnvConfig)} - {"id", "n_envs", "backend"}
    known = in_algo | in_env | {"device", "env_backend"}
    for name in options:
        if name not in known:
            raise UnknownNameError(f"unknown argument '{name}' for {algo}{nearest(name, known)}")
    name = env_id if isinstance(env_id, str) else _describe(env_id)
    env = {k: v for k, v in options.items() if k in in_env}
    if "env_backend" in options:
        env["backend"] = options["env_backend"]
    return make_run(
        {
            "algo": {"name": algo, **{k: v for k, v in options.items() if k in in_algo}},
            "env": {"id": name, "n_envs": n_envs, **env},
            "seed": seed,
            "device": options.get("device", "auto"),
        }
    )


def torch_device(name: str) -> torch.device:
    """The device of `device=name`; auto is the CPU, where small networks are fastest."""
    if name == "auto":
        return torch.device("cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device={name} is not available here: {first_line(error)}") from error
    return device


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Run a block with `count` torch threads and put the caller's number back."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _describe(source: Any) -> str:
    name = getattr(source, "__qualname__", None) or type(source).__name__
    return f"<{name}>"
