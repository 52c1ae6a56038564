"""Classic control without velocities: observations contain positions only."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.errors import ConfigError

__all__ = ["HideVelocities"]

# Indices of the numbers that are not velocities, by the environment's name without its version.
POSITIONS = {
    "Acrobot": (0, 1, 2, 3),
    "CartPole": (0, 2),
    "MountainCar": (0,),
    "MountainCarContinuous": (0,),
    "Pendulum": (0, 1),
}


class HideVelocities(gym.ObservationWrapper[Any, Any, Any]):
    """Keeps only the positions: the same task, but the policy needs a memory.

    After Meuleau et al. 1999, "Learning finite-state controllers for partially observable environments",
    which balances a pole from its angle and position alone.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        name = "" if env.spec is None else env.spec.id.rpartition("/")[2].rpartition("-v")[0]
        if name not in POSITIONS:
            raise ConfigError(
                f"env.wrappers: hide_velocities knows the velocities of {', '.join(POSITIONS)}, not of "
                f"{'this environment' if env.spec is None else env.spec.id}; use a wrapper of your own"
            )
        self._position_indices = list(POSITIONS[name])
        space = env.observation_space
        assert isinstance(space, spaces.Box)
        self.observation_space = spaces.Box(
            space.low[self._position_indices], space.high[self._position_indices], dtype=np.float32
        )

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the positions."""
        return observation[self._position_indices]
