"""Native environments as Gymnasium environments, for evaluations and other uses.

Gymnasium does not know the ids of environments that only a native module has. `register` adds these ids to
Gymnasium's registry, so that `gymnasium.make` finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import NativeEnv, SingleEnv

__all__ = ["NativeGymEnv", "native_ids", "register", "space_of_actions", "space_of_observations"]


def native_ids(module: ModuleType) -> list[str]:
    """Return the ids of a module's native environments: those of its `native_env_ids()`, or none."""
    offered = vars(module).get("native_env_ids")
    return list(offered()) if offered is not None and "VecEnv" in vars(module) else []


def register(module: ModuleType) -> None:
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
