"""Transfer of Gymnasium registrations from the run's process to processes that do not run its script."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterable
from typing import cast

import gymnasium as gym
from gymnasium.envs.registration import EnvCreator, EnvSpec, load_env_creator

__all__ = ["register_specs", "registered_specs", "with_class_object"]

_GYMNASIUM_PREFIX, _SCRIPT_PREFIX = "gymnasium.", "__main__:"


def registered_specs() -> list[EnvSpec]:
    """Return all registered specs except Gymnasium's own.

    Classes in modules are sent by name: a worker imports only those that it makes.
    """
    specs = gym.registry.values()
    sent = [spec for spec in specs if not str(spec.entry_point).startswith(_GYMNASIUM_PREFIX)]
    return [_with_entry_point_name(with_class_object(spec)) for spec in sent]


def register_specs(specs: Iterable[EnvSpec]) -> None:
    """Register the specs that are not registered here yet."""
    for spec in specs:
        gym.registry.setdefault(spec.id, spec)


def with_class_object(spec: EnvSpec) -> EnvSpec:
    """Return a copy with the class itself if its entry point is in the running script, else the same spec."""
    if not (isinstance(spec.entry_point, str) and spec.entry_point.startswith(_SCRIPT_PREFIX)):
        return spec
    copied_spec = copy.copy(spec)
    copied_spec.entry_point = cast(EnvCreator, load_env_creator(spec.entry_point))
    return copied_spec


def _with_entry_point_name(spec: EnvSpec) -> EnvSpec:
    """Return a copy with `module:name` as entry point if that names the class, else the same spec."""
    entry = spec.entry_point
    module, name = getattr(entry, "__module__", "__main__"), getattr(entry, "__qualname__", "")
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not entry:
        return spec
    copied_spec = copy.copy(spec)
    copied_spec.entry_point = f"{module}:{name}"
    return copied_spec
