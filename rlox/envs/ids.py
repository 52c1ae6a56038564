"""Environment ids: look-ups in Gymnasium's registry that do not build an environment."""

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

MAX_IDS_SHOWN = 10  # ids of a module in a message

# Ids that separate packages register, by prefix: (module, package, extra).
_PACKAGES = {
    "ALE/": ("ale_py", "ale-py", "atari"),
    "BabyAI-": ("minigrid", "minigrid", "minigrid"),
    "MiniGrid-": ("minigrid", "minigrid", "minigrid"),
}


def env_ids() -> list[str]:
    """Every registered Gymnasium id."""
    return sorted(gym.registry)


def find_spec(env_id: str) -> Any:
    """Return the Gymnasium spec of `env_id`. `module:Id-v0` first imports the module and registers the native
    environments that it offers.

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
    """Import and return the plugin module that offers an id which Gymnasium does not know by itself.

    The module registers the id on import, or offers it natively; `ConfigError` if it does neither.
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
    """List the ids that a module or package has registered so far, for messages; empty if there are none."""
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
    """Return the callable that `module:make_vec` names if it has an argument `num_envs`, else `None`.

    A name that the module registers, or offers natively, as an id is treated as that id.
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
    problem = "takes no num_envs" if callable(attribute) else f"is of type {type(attribute).__name__}"
    description = f"env={env_id}: {path}.{name} is there but {problem}"
    if isinstance(attribute, type) and issubclass(attribute, gym.Env):
        entry_points = (attribute, f"{path}:{name}", f"{attribute.__module__}:{name}")
        ids = sorted(key for key, spec in gym.registry.items() if spec.entry_point in entry_points)
        id_hint = ", ".join(f"env={path}:{key}" for key in ids) or (
            f"have {path} call gymnasium.register('{name}-v0', {name}) and give env={path}:{name}-v0"
        )
        raise ConfigError(
            f"{description}: it is the class of a single environment, expected its registered id: {id_hint}"
        )
    raise ConfigError(
        f"{description}: expected a function that makes a vectorised environment, def make(num_envs); for a "
        "single environment give the id that the module registers (gymnasium.register)"
    )


def _register_package(name: str) -> None:
    package_info = next((_PACKAGES[start] for start in _PACKAGES if name.startswith(start)), None)
    if package_info is None or name in gym.registry:
        return
    module, package, extra = package_info
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(
            f"env={name} needs the package {package}, which is not installed: {install_command(extra)}"
        )
    imported_module = importlib.import_module(module)
    if module == "ale_py":  # ale_py prints a greeting for each game otherwise
        imported_module.ALEInterface.setLoggerMode(imported_module.LoggerMode.Error)
    gym.register_envs(imported_module)
