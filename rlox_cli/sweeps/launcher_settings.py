"""The settings of the launchers of `hydra/launcher=`, and their valid values.

The names are those of Hydra's launcher plugins. Settings that make no sense because rlox itself tracks
each job are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rlox.configs import nearest
from rlox.errors import ConfigError
from rlox_cli.runs import provenance

# Settings of a queued job, with submitit's names; null: the default of submitit or Slurm.
QUEUE: Mapping[str, Any] = {
    "submitit_folder": "${hydra.sweep.dir}/.submitit/%j",
    "timeout_min": 1440,  # the default of Hydra's launcher plugin, 60, would end most trainings
    "cpus_per_task": None,
    "gpus_per_node": None,
    "tasks_per_node": 1,
    "mem_gb": None,
    "nodes": 1,
    "name": "${hydra.job.name}",
    "stderr_to_stdout": False,
}
SLURM: Mapping[str, Any] = {
    **dict.fromkeys(("partition", "qos", "comment", "constraint", "exclude", "gres", "account")),
    **dict.fromkeys(("cpus_per_gpu", "gpus_per_task", "mem_per_gpu", "mem_per_cpu", "setup")),
    "signal_delay_s": 120,  # the job gets a signal before the time limit, and saves
    "max_num_timeout": 3,  # how often the run is then continued in a new job
    "additional_parameters": {},
    "array_parallelism": 256,
}
# Arguments of `ray.init` and `ray.remote`; null: Ray's default.
RAY: Mapping[str, Any] = {
    "init": dict.fromkeys(("address", "num_cpus", "num_gpus", "resources", "runtime_env")),
    "remote": {
        "num_cpus": 1,
        "num_gpus": 0,
        **dict.fromkeys(("memory", "resources", "accelerator_type", "runtime_env")),
    },
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "joblib": {"n_jobs": -1},
    "ray": {"ray": RAY},
    "submitit_local": QUEUE,
    "submitit_slurm": {**QUEUE, **SLURM},
}


class Expectation(NamedTuple):
    """A description of valid values, and the check of a value."""

    description: str
    is_valid: Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_amount(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < float("inf")


def _is_device_count(value: Any) -> bool:
    return _is_amount(value) and (value <= 1 or value == int(value))


def _is_amounts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_amount, value.values()))


COUNT = Expectation("1 or more", lambda value: _is_integer(value) and value > 0)
ZERO_OR_MORE = Expectation("0 or more", lambda value: _is_integer(value) and value >= 0)
AMOUNT = Expectation("a number of 0 or more", _is_amount)
AMOUNTS = Expectation("a mapping of names to numbers of 0 or more", _is_amounts)
MAPPING = Expectation("a mapping", lambda value: isinstance(value, dict))
TEXT = Expectation("text", lambda value: isinstance(value, str))
DEVICES = Expectation("a number from 0 to 1, or a whole number above 1", _is_device_count)
EXPECTED: Mapping[str, Expectation] = {
    "n_jobs": Expectation("1 or more, or -1 for all CPUs", lambda v: _is_integer(v) and v != 0),
    **dict.fromkeys(("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb"), COUNT),
    "array_parallelism": COUNT,
    "signal_delay_s": ZERO_OR_MORE,
    "max_num_timeout": ZERO_OR_MORE,
    **dict.fromkeys(("ray", "ray.init", "ray.remote"), MAPPING),
    "ray.init.address": TEXT,
    "ray.init.num_cpus": COUNT,
    "ray.init.num_gpus": ZERO_OR_MORE,
    "ray.init.resources": AMOUNTS,
    "ray.init.runtime_env": MAPPING,
    "ray.remote.num_cpus": AMOUNT,
    "ray.remote.num_gpus": DEVICES,
    "ray.remote.memory": AMOUNT,
    "ray.remote.resources": AMOUNTS,
    "ray.remote.accelerator_type": TEXT,
    "ray.remote.runtime_env": MAPPING,
}


def require_settings(launcher: str, settings: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for a setting that the launcher does not have, or for an invalid value."""
    _require_known(launcher, settings, SETTINGS[launcher], "")
    if launcher == "ray":
        _require_ray_capacity(settings.get("ray") or {})


def _require_known(launcher: str, settings: Mapping[str, Any], known: Mapping[str, Any], prefix: str) -> None:
    for name, value in settings.items():
        key = f"{prefix}{name}"
        if name not in known:
            raise ConfigError(
                f"hydra.launcher.{key}: hydra/launcher={launcher} has no such setting{nearest(name, known)}"
            )
        expected = EXPECTED.get(key)
        if expected and value is not None and not expected.is_valid(value):
            raise ConfigError(f"hydra.launcher.{key}={value}: expected {expected.description}")
        if key in ("ray", "ray.init", "ray.remote"):
            _require_known(launcher, value or {}, known[name], f"{key}.")


def _require_ray_capacity(ray: Mapping[str, Any]) -> None:
    """Check that Ray has the resources of a task, because a task that lacks them waits for ever.

    A cluster sets its own resources, so `ray.init` must not set any.
    """
    init = {key: value for key, value in (ray.get("init") or {}).items() if value is not None}
    address = init.get("address") or os.environ.get("RAY_ADDRESS", "local")
    if address != "local":
        for key in {"num_cpus", "num_gpus", "resources"} & set(init):
            raise ConfigError(
                f"hydra.launcher.ray.init.{key}={init[key]}: the cluster at {address} sets its own; "
                f"leave {key} out"
            )
        return
    capacity = {"num_cpus": provenance.cores(), **init}
    for key in ("num_cpus", "num_gpus"):
        requested = (ray.get("remote") or {}).get(key) or 0
        if requested > capacity.get(key, requested):
            raise ConfigError(
                f"hydra.launcher.ray.remote.{key}={requested}: Ray has {capacity[key]} on this machine"
            )
