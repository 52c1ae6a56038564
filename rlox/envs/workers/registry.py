"""What the run's process has registered with Gymnasium, for processes that do not run its script."""

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
    """All but Gymnasium's own.

    Classes of modules go by their names: a worker imports those that it makes, and not what every other
    one needs.
    """
    specs = gym.registry.values()
    sent = [spec for spec in specs if not str(spec.entry_point).startswith(_GYMNASIUM_PREFIX)]
    return [_with_entry_point_name(with_class_object(spec)) for spec in sent]


def register_specs(specs: Iterable[EnvSpec]) -> None:
    """Register what is not registered here yet."""
    for spec in specs:
        gym.registry.setdefault(spec.id, spec)


def with_class_object(spec: EnvSpec) -> EnvSpec:
    """The same with the class itself, where it is named by its place in the script that is running."""
    if not (isinstance(spec.entry_point, str) and spec.entry_point.startswith(_SCRIPT_PREFIX)):
        return spec
    copied_spec = copy.copy(spec)
    copied_spec.entry_point = cast(EnvCreator, load_env_creator(spec.entry_point))
    return copied_spec


def _with_entry_point_name(spec: EnvSpec) -> EnvSpec:
    """The same with `module:name` for what a module has under its name; not for what a script has."""
    entry = spec.entry_point
    module, name = getattr(entry, "__module__", "__main__"), getattr(entry, "__qualname__", "")
    if module == "__main__" or getattr(sys.modules.get(module), name, None) is not entry:
        return spec
    copied_spec = copy.copy(spec)
    copied_spec.entry_point = f"{module}:{name}"
    return copied_spec
