"""Find and register Gymnasium ids without building an environment."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import gymnasium as gym

from rlox.configs import nearest
from rlox.envs import native_gym
from rlox.envs.optional_packages import OPTIONAL_PACKAGE_IDS
from rlox.errors import ConfigError, MissingExtraError, UnknownNameError
from rlox.extras import install_command
from rlox.importing import import_module
from rlox.plugins import find_entry

__all__ = [
    "describe_registered_ids",
    "env_ids",
    "find_spec",
    "plugin_module",
    "takes_num_envs",
    "vector_factory",
]

MAX_IDS_SHOWN = 10  # a message lists at most this many ids of a module

# Prefix of ids -> module that registers them, package to install, rlox extra.
_PACKAGES = {
    "ALE/": ("ale_py", "ale-py", "atari"),
    "BabyAI-": ("minigrid", "minigrid", "minigrid"),
    "MiniGrid-": ("minigrid", "minigrid", "minigrid"),
}


def env_ids() -> list[str]:
    """Return every registered Gymnasium id, sorted."""
    return sorted(gym.registry)


def find_spec(env_id: str) -> Any:
    """Return the Gymnasium spec of `env_id`.

    For `module:Id-v0`, first import the module and register its native environments.

    Raises `UnknownNameError` with the nearest ids, or `MissingExtraError` with the package to install.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        native_gym.register(import_module(f"env={env_id}", module))
    elif name not in gym.registry:
        plugin_module(name)
    _register_package(name)
    if name not in gym.registry:
        if module:
            _reject_other_attribute(env_id, module, name)
        near = nearest(name, {*env_ids(), *OPTIONAL_PACKAGE_IDS}, f"{module}:" if module else "")
        raise UnknownNameError(
            f"environment '{env_id}' is not registered in Gymnasium{describe_registered_ids(module)}{near}"
        )
    return gym.spec(name)


@cache
def plugin_module(env_id: str) -> ModuleType | None:
    """Import and return the module of the plugin that adds this id.

    None if Gymnasium already has the id or no plugin adds it. The module registers the id on import or has a
    native environment of that name; `ConfigError` if it does neither.
    """
    setting = f"env={env_id}"
    entry = None if env_id in gym.registry else find_entry("env", env_id, setting)
    if entry is None:
        return None
    module = entry.load(setting)
    if isinstance(module, ModuleType):
        native_gym.register(module)
    if env_id not in gym.registry:
        raise entry.kind_error(setting, f"a module that registers {env_id} with Gymnasium")
    return module if isinstance(module, ModuleType) else None


def describe_registered_ids(module: str) -> str:
    """Return `; MODULE registers A, B` for a message, or an empty text if it has registered no id so far."""
    entry_modules = {
        name: entry_point.partition(":")[0]
        if isinstance(entry_point, str)
        else getattr(entry_point, "__module__", "")
        for name, entry_point in ((name, spec.entry_point) for name, spec in gym.registry.items())
    }
    ids = sorted(
        name for name, entry_module in entry_modules.items() if f"{entry_module}.".startswith(f"{module}.")
    )
    suffix = f" and {len(ids) - MAX_IDS_SHOWN} more" if len(ids) > MAX_IDS_SHOWN else ""
    return f"; {module} registers {', '.join(ids[:MAX_IDS_SHOWN])}{suffix}" if ids else ""


def vector_factory(env_id: str) -> Callable[..., Any] | None:
    """Import what `module:name` names; return it if it is a callable with an argument `num_envs`, else None.

    A registered id has precedence: if `name` is one, the result is also None.
    """
    path, _, name = env_id.rpartition(":")
    if not path or not name.isidentifier():
        return None
    attribute = vars(import_module(f"env={env_id}", path)).get(name)
    if name in gym.registry or not callable(attribute):
        return None
    return attribute if takes_num_envs(attribute) else None


def takes_num_envs(make: Any) -> bool:
    """Whether a callable makes a vectorised environment: it has an argument `num_envs`."""
    try:
        return "num_envs" in inspect.signature(make).parameters
    except (TypeError, ValueError):
        return False


def _reject_other_attribute(env_id: str, path: str, name: str) -> None:
    """Raise `ConfigError` if the module has an attribute of this name that is not a usable environment."""
    module = import_module(f"env={env_id}", path)
    if name not in vars(module):
        return
    attribute = vars(module)[name]
    problem = "has no argument num_envs" if callable(attribute) else f"is of type {type(attribute).__name__}"
    description = f"env={env_id}: {path}.{name} exists, but {problem}"
    if isinstance(attribute, type) and issubclass(attribute, gym.Env):
        entry_points = (attribute, f"{path}:{name}", f"{attribute.__module__}:{name}")
        ids = sorted(key for key, spec in gym.registry.items() if spec.entry_point in entry_points)
        id_hint = ", ".join(f"env={path}:{key}" for key in ids) or (
            f"add gymnasium.register('{name}-v0', {name}) to {path} and pass env={path}:{name}-v0"
        )
        raise ConfigError(
            f"{description}: it is the class of a single environment; pass its registered id instead: "
            f"{id_hint}"
        )
    raise ConfigError(
        f"{description}: expected a function that makes a vectorised environment, def make(num_envs); for a "
        "single environment pass the id that the module registers (gymnasium.register)"
    )


def _register_package(name: str) -> None:
    package_info = next((_PACKAGES[prefix] for prefix in _PACKAGES if name.startswith(prefix)), None)
    if package_info is None or name in gym.registry:
        return
    module, package, extra = package_info
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(
            f"env={name} needs the package {package}, which is not installed: {install_command(extra)}"
        )
    imported_module = importlib.import_module(module)
    if module == "ale_py":  # without this, ale_py prints a banner for each game
        imported_module.ALEInterface.setLoggerMode(imported_module.LoggerMode.Error)
    gym.register_envs(imported_module)
