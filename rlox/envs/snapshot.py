"""Saving and restoring of Gymnasium environments; `can_save` tells whether an environment supports it.

Supported are Gymnasium's classic-control and toy-text environments, those of the simulators in
`rlox.envs.engines.states`, and any environment whose unwrapped object has `save_state() -> tree` and
`load_state(tree)` (a tree of `rlox.state_tree`: numbers, text, arrays, lists, tuples, dicts). Their wrappers
must be of known types or have these two methods as well. All others resume at the start of an episode.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rlox.envs.engines.states import state_handler_for
from rlox.errors import CheckpointError
from rlox.state_tree import from_state_tree, to_state_tree

__all__ = ["can_save", "restore_env", "save_env"]

# Attributes with the whole simulation state, by the package of the environment's class.
_ENV_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "gymnasium.envs.classic_control": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.toy_text": ("s", "lastaction", "dealer", "player", "fickle_step"),
}
# The mutable state of the wrappers that `gymnasium.make` and `env.wrappers` add.
_WRAPPER_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "ActionRepeat": (),
    "ClipAction": (),
    "ClipReward": (),
    "FilterObservation": (),
    "FlatObsWrapper": (),  # caches the encoding of the last mission, which it can recompute
    "FlattenObservation": (),
    "HideVelocities": (),
    "ImgObsWrapper": (),
    "InfoParts": (),
    "MaskActions": (),
    "OrderEnforcing": ("_has_reset",),
    "PassiveEnvChecker": ("checked_reset", "checked_step", "checked_render"),
    "RescaleAction": (),
    "ShapedReward": (),
    "TimeAwareObservation": ("timesteps",),
    "TimeLimit": ("_elapsed_steps",),
    "TrueReturn": ("total", "on"),
    "TellTrueReturn": (),
}
_KNOWN_MODULES = ("gymnasium.wrappers", "minigrid.wrappers", "rlox.envs.")


def can_save(env: gym.Env[Any, Any]) -> bool:
    """Tell whether `save_env` saves everything that the environment's future depends on."""
    are_wrappers_known = all(
        _has_save_methods(w) or _wrapper_attributes(w) is not None for w in _wrappers(env)
    )
    unwrapped = env.unwrapped
    return are_wrappers_known and (
        _has_save_methods(unwrapped)
        or state_handler_for(unwrapped) is not None
        or _env_attributes(unwrapped) is not None
    )


def save_env(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return the state of the environment, its wrappers and its random generator."""
    unwrapped: Any = env.unwrapped
    state: dict[str, Any] = {"wrappers": [_save_wrapper(w) for w in _wrappers(env)]}
    handler = state_handler_for(unwrapped)
    if _has_save_methods(unwrapped):
        state["own"] = _call_save_state(unwrapped)
    elif handler is not None:
        state["own"] = handler.save(unwrapped)
    else:
        names = [n for n in _env_attributes(unwrapped) or () if n in vars(unwrapped)]
        state["fields"] = {n: _add_type_tag(getattr(unwrapped, n)) for n in names}
    generator = unwrapped._np_random
    state["random"] = None if generator is None else _to_plain(generator.bit_generator.state)
    return state


def restore_env(env: gym.Env[Any, Any], state: Mapping[str, Any]) -> None:
    """Load a saved state into an environment made in the same way."""
    unwrapped: Any = env.unwrapped
    wrappers = _wrappers(env)
    if len(wrappers) != len(state["wrappers"]):
        raise CheckpointError(f"{env} has {len(wrappers)} wrappers, but the saved state has another number")
    for wrapper, saved_item in zip(wrappers, state["wrappers"], strict=True):
        if _has_save_methods(wrapper):
            wrapper.load_state(from_state_tree(copy.deepcopy(saved_item["own"])))
            continue
        for name in _wrapper_attributes(wrapper) or ():
            if name in saved_item:
                setattr(wrapper, name, saved_item[name])
    if state["random"] is not None:
        unwrapped.np_random = np.random.Generator(np.random.PCG64())
        unwrapped.np_random.bit_generator.state = state["random"]
    if _has_save_methods(unwrapped):
        unwrapped.load_state(from_state_tree(copy.deepcopy(state["own"])))
        return
    handler = state_handler_for(unwrapped)
    if handler is not None:
        handler.load(unwrapped, state["own"])
        return
    allowed = _env_attributes(unwrapped) or ()
    for name, saved_item in state["fields"].items():
        if name in allowed:
            setattr(unwrapped, name, _remove_type_tag(saved_item))


def _save_wrapper(wrapper: Any) -> dict[str, Any]:
    if _has_save_methods(wrapper):
        return {"own": _call_save_state(wrapper)}
    names = _wrapper_attributes(wrapper) or ()
    return {name: getattr(wrapper, name) for name in names if name in vars(wrapper)}


def _call_save_state(env: Any) -> Any:
    """Return the state that a user's environment or wrapper saves, in types that a checkpoint restores."""
    return to_state_tree(env.save_state(), f"the state of {type(env).__name__}", keep_numpy=True)


def _wrapper_attributes(wrapper: Any) -> tuple[str, ...] | None:
    """Return the attributes that hold the state of a wrapper; `None` if they are not known."""
    kind = type(wrapper)
    return _WRAPPER_ATTRIBUTES.get(kind.__name__) if kind.__module__.startswith(_KNOWN_MODULES) else None


def _wrappers(env: gym.Env[Any, Any]) -> list[Any]:
    wrappers: list[Any] = []
    while isinstance(env, gym.Wrapper):
        wrappers.append(env)
        env = env.env
    return wrappers


def _has_save_methods(env: Any) -> bool:
    return callable(getattr(env, "save_state", None)) and callable(getattr(env, "load_state", None))


def _env_attributes(unwrapped: Any) -> tuple[str, ...] | None:
    module = type(unwrapped).__module__
    return next((f for package, f in _ENV_ATTRIBUTES.items() if module.startswith(package)), None)


def _add_type_tag(value: Any) -> Any:
    """Tag tuples and NumPy scalars so that JSON keeps their type, on which later arithmetic depends."""
    if isinstance(value, tuple):
        return {"tuple": [_add_type_tag(v) for v in value]}
    if isinstance(value, np.generic):
        return {"scalar": np.asarray(value)}
    if isinstance(value, np.ndarray):
        return {"array": value.copy()}
    return {"value": copy.deepcopy(value)}  # copied, because lists such as a hand of cards grow


def _remove_type_tag(entry: Mapping[str, Any]) -> Any:
    if "tuple" in entry:
        return tuple(_remove_type_tag(v) for v in entry["tuple"])
    if "scalar" in entry:
        return entry["scalar"][()]
    return copy.deepcopy(entry["array"] if "array" in entry else entry["value"])


def _to_plain(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {str(k): _to_plain(v) for k, v in state.items()}
    return state.copy() if isinstance(state, np.ndarray) else state
