"""One spec per native environment: the facts that tests need in addition to Gymnasium's code.

A new environment is tested when `tests/helpers/native_envs/<name>.py` has a `SPEC`;
`tests/meta/test_specs.py` names missing ones.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import rlox


@dataclass(frozen=True)
class NativeSpec:
    """The spec of a native environment."""

    env_id: str
    single: type[rlox.SingleEnv]
    """The class of one environment."""
    starts: Sequence[tuple[float, float] | None]
    """Bounds of each variable of the first state; a variable without bounds is 0 and needs no draw."""
    observe: Callable[[np.ndarray], Sequence[np.ndarray]]
    """Returns the columns of the observation from the transposed states `[state_dim, n]`."""
    scripted_policy: Callable[[np.ndarray], np.ndarray]
    """Returns actions that solve the task from the transposed observations `[obs_dim, n]`."""
    solved_return: float
    """A skilled policy's mean return over 50 episodes exceeds this."""
    deviation: float
    """Largest error of the state after one float32 step, as in rust/rlox-core/src/env.

    It is relative to the larger of a variable's magnitude and 1.
    """
    reward_deviation: float = 0.0
    """Largest absolute error of the reward of one float32 step."""
    float32_state: bool = False
    """Whether Gymnasium keeps its state in float32, so that NumPy's rules for float32 apply."""
    float32_start: bool = False
    """Whether Gymnasium keeps its first state in float32."""
    angles: Sequence[int] = ()
    """State variables that wrap around, so that close values near half a turn may look far apart."""
    episodes: int = 4
    """Number of whole episodes that tests compare with Gymnasium step by step."""
    full_episodes: int = 1_000
    """The same with `RLOX_FULL=1`."""
    free_steps: int = 1_000
    """Steps for which a free-running copy stays close to Gymnasium's; chaos shortens them."""

    def observation(self, state: np.ndarray) -> np.ndarray:
        """Return float32 observations `[n, obs_dim]` of states `[n, state_dim]`."""
        return np.stack(list(self.observe(state.T)), axis=1).astype(np.float32)

    @property
    def state_dtype(self) -> type[np.floating]:
        """The dtype in which Gymnasium keeps the state."""
        return np.float32 if self.float32_state else np.float64


SPECS: dict[str, NativeSpec] = {
    spec.env_id: spec
    for spec in (
        importlib.import_module(f"{__name__}.{module.name}").SPEC for module in pkgutil.iter_modules(__path__)
    )
}
