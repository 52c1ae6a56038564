"""Environment ids: looking them up in Gymnasium's registry, without building anything."""

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
from rlox.envs.optional import LATE_IDS
from rlox.errors import ConfigError, MissingExtraError, UnknownNameError
from rlox.extras import install
from rlox.importing import import_module
from rlox.plugins import the_offer

__all__ = ["env_ids", "find_spec", "plugged", "registered_by", "takes_num_envs", "vector_factory"]

SHOWN = 10  # ids of a module in a message

# Ids that a separate package registers, by how they begin: (module, package, extra).
_PACKAGES = {
    "ALE/": ("ale_py", "ale-py", "atari"),
    "BabyAI-": ("minigrid", "minigrid", "minigrid"),
    "MiniGrid-": ("minigrid", "minigrid", "minigrid"),
}


def env_ids() -> list[str]:
    """Every registered Gymnasium id."""
    return sorted(gym.registry)


def find_spec(env_id: str) -> Any:
    """The Gymnasium spec of `env_id`; `module:Id-v0` imports the module first
    and registers the native environments that it offers.

    Raises `UnknownNameError` with the nearest ids, or `MissingExtraError` with what to install.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        native_gym.register(import_module(f"env={env_id}", module))
    elif name not in gym.registry:
        plugged(name)
    _register_package(name)
    if name not in gym.registry:
        if module:
            _require_none_of_that_name(env_id, module, name)
        near = nearest(name, {*env_ids(), *LATE_IDS}, f"{module}:" if module else "")
        raise UnknownNameError(
            f"environment '{env_id}' is not registered in Gymnasium{registered_by(module)}{near}"
        )
    return gym.spec(name)


@cache
def plugged(env_id: str) -> ModuleType | None:
    """The module of the plugin that offers an id which Gymnasium does not have without it.

    It registers the id when it is imported, or offers it natively. `ConfigError` where it does neither.
    """
    told = f"env={env_id}"
    offer = None if env_id in gym.registry else the_offer("env", env_id, told)
    if offer is None:
        return None
    module = offer.load(told)
    if isinstance(module, ModuleType):
        native_gym.register(module)
    if env_id not in gym.registry:
        raise offer.wrong(told, f"a module that registers {env_id} with Gymnasium")
    return module if isinstance(module, ModuleType) else None


def registered_by(module: str) -> str:
    """Which ids a module or package registers by now, for messages; empty where none is known."""
    homes = {
        name: made.partition(":")[0] if isinstance(made, str) else getattr(made, "__module__", "")
        for name, made in ((name, spec.entry_point) for name, spec in gym.registry.items())
    }
    found = sorted(name for name, home in homes.items() if f"{home}.".startswith(f"{module}."))
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"; {module} registers {', '.join(found[:SHOWN])}{more}" if found else ""


def vector_factory(env_id: str) -> Callable[..., Any] | None:
    """What `module:make_vec` names: a callable with an argument `num_envs`; `None` for anything else.

    An id that the module registers, or offers natively, is that id.
    """
    path, _, name = env_id.rpartition(":")
    if not path or not name.isidentifier():
        return None
    found = vars(import_module(f"env={env_id}", path)).get(name)
    if name in gym.registry or not callable(found):
        return None
    return found if takes_num_envs(found) else None


def takes_num_envs(make: Any) -> bool:
    """Whether a callable makes a vectorised environment: it has an argument `num_envs`."""
    try:
        return "num_envs" in inspect.signature(make).parameters
    except (TypeError, ValueError):
        return False


def _require_none_of_that_name(env_id: str, path: str, name: str) -> None:
    """`ConfigError` where the module has such a name, which is no environment here."""
    module = import_module(f"env={env_id}", path)
    if name not in vars(module):
        return
    found = vars(module)[name]
    what = "takes no num_envs" if callable(found) else f"is of type {type(found).__name__}"
    there = f"env={env_id}: {path}.{name} is there but {what}"
    if isinstance(found, type) and issubclass(found, gym.Env):
        made_by = (found, f"{path}:{name}", f"{found.__module__}:{name}")
        ids = sorted(key for key, spec in gym.registry.items() if spec.entry_point in made_by)
        by_id = ", ".join(f"env={path}:{key}" for key in ids) or (
            f"have {path} call gymnasium.register('{name}-v0', {name}) and give env={path}:{name}-v0"
        )
        raise ConfigError(
            f"{there}: it is a class of single environments, which an id names: {by_id}"
        )
    raise ConfigError(
        f"{there}: expected what makes a vectorised environment, def make(num_envs); single environments are "
        "named by the id that the module registers (gymnasium.register)"
    )


def _register_package(name: str) -> None:
    known = next((_PACKAGES[start] for start in _PACKAGES if name.startswith(start)), None)
    if known is None or name in gym.registry:
        return
    module, package, extra = known
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(
            f"env={name} needs the package {package}, which is not installed: {install(extra)}"
        )
    found = importlib.import_module(module)
    if module == "ale_py":  # which says hello on the terminal for each game
        found.ALEInterface.setLoggerMode(found.LoggerMode.Error)
    gym.register_envs(found)
