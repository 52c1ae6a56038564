"""Saving and restoring environments of MuJoCo and ALE, whose state is outside Python, and some of MiniGrid.

Each state is a tree of numbers, text and arrays, as in checkpoints. The random generator and the wrappers of
an environment are saved separately (`rlox.envs.snapshot`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rlox.errors import CheckpointError

__all__ = ["StateHandler", "state_handler_for"]


class StateHandler(NamedTuple):
    """How to save and restore the environments of a simulator."""

    save: Callable[[Any], dict[str, Any]]
    load: Callable[[Any, Mapping[str, Any]], None]


# MiniGrid environments whose dynamics depend only on the grid and the agent; others keep references to
# objects in the grid.
_GRIDS = {
    "CrossingEnv",
    "DistShiftEnv",
    "DoorKeyEnv",
    "EmptyEnv",
    "FourRoomsEnv",
    "LavaGapEnv",
}


def state_handler_for(unwrapped: Any) -> StateHandler | None:
    """Return how to save an unwrapped environment; `None` if that is not known."""
    kind = type(unwrapped)
    if kind.__module__ == "ale_py.env" and not isinstance(unwrapped._frameskip, tuple):
        return _ALE
    if kind.__module__.startswith("gymnasium.envs.mujoco.") and kind.__module__.endswith("_v5"):
        return _MUJOCO
    if kind.__module__.startswith("minigrid.envs.") and kind.__name__ in _GRIDS:
        return _GRID
    return None


def _save_ale(env: Any) -> dict[str, Any]:
    """Save the emulator with its random generator, on which sticky actions depend."""
    state = env.ale.cloneState(include_rng=True)
    return {"machine": np.frombuffer(state.serialize(), np.uint8)}


def _load_ale(env: Any, state: Mapping[str, Any]) -> None:
    import ale_py

    try:
        env.ale.restoreState(ale_py.ALEState(np.asarray(state["machine"], np.uint8).tobytes()))
    except Exception as error:
        raise CheckpointError(f"{env} cannot load its saved state: {error}") from error


def _save_mujoco(env: Any) -> dict[str, Any]:
    """Save the inputs of the next step, and all derived arrays.

    Some environments read derived arrays before they step. These arrays date from the start of the last step,
    so recomputing them would give other numbers.
    """
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    integration = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, integration, kind)
    computed = {name: getattr(env.data, name).copy() for name in _computed_names(env)}
    goals = {name: np.array(vars(env)[name]) for name in _GOALS if name in vars(env)}
    return {"integration": integration, "computed": computed, "goals": goals}


def _load_mujoco(env: Any, state: Mapping[str, Any]) -> None:
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    saved = np.ascontiguousarray(state["integration"], np.float64)
    if saved.shape != (mujoco.mj_stateSize(env.model, kind),):
        raise CheckpointError(
            f"{env} has a state of {mujoco.mj_stateSize(env.model, kind)} numbers, but the saved one "
            f"has {saved.size}: it is from another version of MuJoCo or of the environment"
        )
    mujoco.mj_setState(env.model, env.data, saved, kind)
    for name in _computed_names(env):
        array, value = getattr(env.data, name), state["computed"].get(name)
        if value is not None and np.shape(value) == array.shape:
            array[...] = value
    for name in _GOALS:
        if name in state["goals"]:
            setattr(env, name, np.array(state["goals"][name]))


# Where a reset of Reacher and Pusher stores the goal.
_GOALS = ("goal", "goal_pos", "cylinder_pos")


def _computed_names(env: Any) -> list[str]:
    """List the float arrays whose size depends only on the model; every step recomputes the contacts."""
    names = (name for name in dir(env.data) if not name.startswith(("_", "efc_", "iefc_")))
    return [name for name in names if _is_float_array(getattr(env.data, name))]


def _is_float_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64 and value.flags.writeable


def _save_grid(env: Any) -> dict[str, Any]:
    """Save the grid in MiniGrid's encoding, and the agent."""
    if "grid" not in vars(env):  # not reset yet
        return {}
    carrying = None if env.carrying is None else list(map(int, env.carrying.encode()))
    return {
        "grid": env.grid.encode(),
        "position": list(map(int, env.agent_pos)),
        "direction": int(env.agent_dir),
        "carrying": carrying,
        "mission": str(env.mission),
        "steps": int(env.step_count),
    }


def _load_grid(env: Any, state: Mapping[str, Any]) -> None:
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import WorldObj

    if not state:
        return
    env.grid, _ = Grid.decode(np.asarray(state["grid"], np.uint8))
    env.agent_pos = tuple(map(int, state["position"]))
    env.agent_dir, env.step_count = int(state["direction"]), int(state["steps"])
    carrying = state["carrying"]
    env.carrying = None if carrying is None else WorldObj.decode(*map(int, carrying))
    env.mission = str(state["mission"])


_ALE = StateHandler(_save_ale, _load_ale)
_MUJOCO = StateHandler(_save_mujoco, _load_mujoco)
_GRID = StateHandler(_save_grid, _load_grid)
