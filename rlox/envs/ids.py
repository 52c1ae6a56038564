"""Environment ids: looking them up in Gymnasium's registry, without building anything."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import gymnasium as gym

from rlox.configs import nearest
from rlox.envs import native_gym
from rlox.errors import MissingExtraError, UnknownNameError
from rlox.importing import import_module

__all__ = ["env_ids", "find_spec"]

# Namespaces that a separate package registers: namespace -> (module, what to install).
_NAMESPACES = {"ALE": ("ale_py", "ale-py")}


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
    _register_namespace(name)
    if name not in gym.registry:
        raise UnknownNameError(
            f"environment '{env_id}' is not registered in Gymnasium{nearest(name, env_ids())}"
        )
    return gym.spec(name)


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
