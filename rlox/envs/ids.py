"""Find and register Gymnasium ids without building an environment; native environments for Gymnasium.

Gymnasium does not know the ids of environments that only a native module has. `register_native_envs` adds
these ids to Gymnasium's registry, so that `gymnasium.make` finds them. `registered_specs` and
`register_specs` transfer registrations to processes that do not run the script of this one.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import ModuleType
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvCreator, EnvSpec, load_env_creator
from numpy.typing import NDArray

from rlox._core import NativeEnv, SingleEnv
from rlox.configs import nearest
from rlox.envs.optional_packages import OPTIONAL_PACKAGE_IDS
from rlox.errors import ConfigError, MissingExtraError, UnknownNameError
from rlox.extras import install_command
from rlox.importing import import_module
from rlox.plugins import find_entry

__all__ = [
    "NativeGymEnv",
    "describe_registered_ids",
    "env_ids",
    "find_spec",
    "native_ids",
    "plugin_module",
    "register_native_envs",
    "register_specs",
    "registered_specs",
    "space_of_actions",
    "space_of_observations",
    "takes_num_envs",
    "vector_factory",
    "with_class_object",
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
        register_native_envs(import_module(f"env={env_id}", module))
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
        register_native_envs(module)
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


def native_ids(module: ModuleType) -> list[str]:
    """Return the ids of a module's native environments: those of its `native_env_ids()`, or none."""
    offered = vars(module).get("native_env_ids")
    return list(offered()) if offered is not None and "VecEnv" in vars(module) else []


def register_native_envs(module: ModuleType) -> None:
    """Register the native ids of a module with Gymnasium, except those that are registered already."""
    for env_id in native_ids(module):
        if env_id not in gym.registry:
            gym.register(env_id, partial(NativeGymEnv, vars(module)["SingleEnv"], env_id))


def space_of_observations(core: NativeEnv) -> gym.Space[Any]:
    """Return the float32 Box of a native environment."""
    return spaces.Box(core.observation_low, core.observation_high, dtype=np.float32)


def space_of_actions(core: NativeEnv) -> gym.Space[Any]:
    """Return the Discrete or float32 Box of a native environment."""
    if core.n_actions is not None:
        return spaces.Discrete(core.n_actions)
    return spaces.Box(np.asarray(core.action_low), np.asarray(core.action_high), dtype=np.float32)


class NativeGymEnv(gym.Env[NDArray[np.float32], Any]):
    """One native environment; `reset(seed=s)` starts the first episode that seed s gives.

    `make(env_id, seed)` is the `SingleEnv` of the module that has the id. The environment keeps its own time
    limit and does not render.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - Gymnasium's name and type

    def __init__(
        self, make: Callable[[str, int], SingleEnv], env_id: str, render_mode: str | None = None
    ) -> None:
        if render_mode is not None:
            raise gym.error.UnsupportedMode(f"{env_id} is a native environment and cannot render")
        self.core = make(env_id, 0)
        self.render_mode = None
        self.observation_space = space_of_observations(self.core)
        self.action_space = space_of_actions(self.core)
        self._seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode; if no reset was given a seed so far, a random seed is drawn."""
        super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**63))
        self._seeded = True
        return self.core.reset(seed), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Advance by one action."""
        result = self.core.step(action)
        return result["obs"], result["reward"], result["terminated"], result["truncated"], {}

    def save_state(self) -> dict[str, Any]:
        """Return the whole simulation, for checkpoints."""
        return {"core": self.core.snapshot(), "seeded": self._seeded}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `save_state()`, bit for bit."""
        self.core.restore(dict(state["core"]))
        self._seeded = bool(state["seeded"])


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
