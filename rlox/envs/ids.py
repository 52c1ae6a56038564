"""Environment ids: looking them up in Gymnasium's registry, without building anything."""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from types import ModuleType
from typing import Any

import gymnasium as gym

from rlox.configs import nearest
from rlox.envs import native_gym
from rlox.envs.optional import ATARI_IDS
from rlox.errors import MissingExtraError, UnknownNameError
from rlox.importing import import_module
from rlox.plugins import the_offer

__all__ = ["env_ids", "find_spec", "is_ale", "plugged"]

# Namespaces that a separate package registers: namespace -> (module, what to install).
_NAMESPACES = {"ALE": ("ale_py", "ale-py")}


def env_ids() -> list[str]:
    """Every registered Gymnasium id."""
    return sorted(gym.registry)


def is_ale(env_id: str) -> bool:
    """Whether an id is of a game in the Arcade Learning Environment."""
    return env_id.rpartition(":")[2].startswith("ALE/")


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
    _register_namespace(name)
    if name not in gym.registry:
        raise UnknownNameError(
            f"environment '{env_id}' is not registered in Gymnasium{nearest(name, {*env_ids(), *ATARI_IDS})}"
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


def _register_namespace(name: str) -> None:
    namespace = name.split("/")[0] if "/" in name else ""
    if namespace not in _NAMESPACES or name in gym.registry:
        return
    module, package = _NAMESPACES[namespace]
    if importlib.util.find_spec(module) is None:
        raise MissingExtraError(
            f"env={name} needs the package {package}, which is not installed: pip install {package}"
        )
    gym.register_envs(importlib.import_module(module))
