"""Saving and restoring Gymnasium environments that can be saved; the others say so.

Exact: Gymnasium's classic-control and toy-text environments, those of the engines in
`rlox.envs.engines.states`, and any environment whose unwrapped object has `save_state() -> tree` and
`load_state(tree)` (a tree of `rlox.kinds`: numbers, text, arrays, lists, tuples, dicts), under wrappers
whose own state is known or that have these two methods as well. Everything else resumes at the start of an
episode.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from rlox.envs.engines.states import engine_of
from rlox.errors import CheckpointError
from rlox.kinds import back, kept

__all__ = ["can_save", "restore_env", "save_env"]

# Where the whole simulation state lives, by the package of the environment's class.
_FIELDS: dict[str, tuple[str, ...]] = {
    "gymnasium.envs.classic_control": ("state", "steps_beyond_terminated"),
    "gymnasium.envs.toy_text": ("s", "lastaction", "dealer", "player", "fickle_step"),
}
# The mutable state of the wrappers that `gymnasium.make` and `env.wrappers` put around it.
_WRAPPERS: dict[str, tuple[str, ...]] = {
    "ActionRepeat": (),
    "ClipAction": (),
    "ClipReward": (),
    "FilterObservation": (),
    "FlatObsWrapper": (),  # keeps the code of the last mission, made again from it
    "FlattenObservation": (),
    "HideVelocities": (),
    "ImgObsWrapper": (),
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
_OURS = ("gymnasium.wrappers", "minigrid.wrappers", "rlox.envs.")


def can_save(env: gym.Env[Any, Any]) -> bool:
    """Whether `save_env` holds everything that the environment's future depends on."""
    known = all(_has_own(w) or _known(w) is not None for w in _wrappers(env))
    inner = env.unwrapped
    return known and (_has_own(inner) or engine_of(inner) is not None or _fields(inner) is not None)


def save_env(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """The state of the environment, its wrappers and its random generator."""
    inner: Any = env.unwrapped
    state: dict[str, Any] = {"wrappers": [_save_wrapper(w) for w in _wrappers(env)]}
    engine = engine_of(inner)
    if _has_own(inner):
        state["own"] = _own(inner)
    elif engine is not None:
        state["own"] = engine.save(inner)
    else:
        names = [n for n in _fields(inner) or () if n in vars(inner)]
        state["fields"] = {n: _tagged(getattr(inner, n)) for n in names}
    generator = inner._np_random
    state["random"] = None if generator is None else _plain(generator.bit_generator.state)
    return state


def restore_env(env: gym.Env[Any, Any], state: Mapping[str, Any]) -> None:
    """Put a saved state back into an environment made in the same way."""
    inner: Any = env.unwrapped
    wrappers = _wrappers(env)
    if len(wrappers) != len(state["wrappers"]):
        raise CheckpointError(f"{env} has {len(wrappers)} wrappers, the saved state another number")
    for wrapper, saved in zip(wrappers, state["wrappers"], strict=True):
        if _has_own(wrapper):
            wrapper.load_state(back(copy.deepcopy(saved["own"])))
            continue
        for name in _known(wrapper) or ():
            if name in saved:
                setattr(wrapper, name, saved[name])
    if state["random"] is not None:
        inner.np_random = np.random.Generator(np.random.PCG64())
        inner.np_random.bit_generator.state = state["random"]
    if _has_own(inner):
        inner.load_state(back(copy.deepcopy(state["own"])))
        return
    engine = engine_of(inner)
    if engine is not None:
        engine.load(inner, state["own"])
        return
    allowed = _fields(inner) or ()
    for name, saved in state["fields"].items():
        if name in allowed:
            setattr(inner, name, _untagged(saved))


def _save_wrapper(wrapper: Any) -> dict[str, Any]:
    if _has_own(wrapper):
        return {"own": _own(wrapper)}
    names = _known(wrapper) or ()
    return {name: getattr(wrapper, name) for name in names if name in vars(wrapper)}


def _own(env: Any) -> Any:
    """What somebody's environment or wrapper saves, of kinds that come back from a checkpoint."""
    return kept(env.save_state(), f"the state of {type(env).__name__}", numpy=True)


def _known(wrapper: Any) -> tuple[str, ...] | None:
    """The attributes that are the state of a wrapper; `None` where that is not known."""
    kind = type(wrapper)
    return _WRAPPERS.get(kind.__name__) if kind.__module__.startswith(_OURS) else None


def _wrappers(env: gym.Env[Any, Any]) -> list[Any]:
    found: list[Any] = []
    while isinstance(env, gym.Wrapper):
        found.append(env)
        env = env.env
    return found


def _has_own(inner: Any) -> bool:
    return callable(getattr(inner, "save_state", None)) and callable(
        getattr(inner, "load_state", None)
    )


def _fields(inner: Any) -> tuple[str, ...] | None:
    module = type(inner).__module__
    return next((f for package, f in _FIELDS.items() if module.startswith(package)), None)


def _tagged(value: Any) -> Any:
    """Tuples and NumPy scalars keep their kind through JSON: it decides the arithmetic later."""
    if isinstance(value, tuple):
        return {"tuple": [_tagged(v) for v in value]}
    if isinstance(value, np.generic):
        return {"scalar": np.asarray(value)}
    if isinstance(value, np.ndarray):
        return {"array": value.copy()}
    return {"value": copy.deepcopy(value)}  # a hand of cards is a list that grows


def _untagged(saved: Mapping[str, Any]) -> Any:
    if "tuple" in saved:
        return tuple(_untagged(v) for v in saved["tuple"])
    if "scalar" in saved:
        return saved["scalar"][()]
    return copy.deepcopy(saved["array"] if "array" in saved else saved["value"])


def _plain(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {str(k): _plain(v) for k, v in state.items()}
    return state.copy() if isinstance(state, np.ndarray) else state
