"""One spec per native environment: what the tests need to know of it beside Gymnasium's own code.

A new environment is tested by having `tests/helpers/native_envs/<name>.py` with a `SPEC`;
`tests/meta/test_specs.py` says which are missing.
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
    """A native environment."""

    env_id: str
    single: type[rlox.SingleEnv]
    """The class of one environment."""
    starts: Sequence[tuple[float, float] | None]
    """Bounds of each variable of the first state; one without bounds is 0 and costs no draw."""
    observe: Callable[[np.ndarray], Sequence[np.ndarray]]
    """Columns of the observation, from the transposed states `[state_dim, n]`."""
    scripted_policy: Callable[[np.ndarray], np.ndarray]
    """Actions that solve the task, from the transposed observations `[obs_dim, n]`."""
    solved_return: float
    """What a skilled policy's mean return over 50 episodes exceeds."""
    deviation: float
    """Of one float32 step's state, relative to the larger of a variable's magnitude and 1, as in
    rust/rlox-core/src/env."""
    reward_deviation: float = 0.0
    """Of one float32 step's reward, absolute."""
    float32_state: bool = False
    """Gymnasium keeps its state in float32, and NumPy's rules follow from that."""
    float32_start: bool = False
    """Gymnasium keeps its first state in float32."""
    angles: Sequence[int] = ()
    """State variables that wrap around, so that two near half a turn may be far apart."""
    episodes: int = 4
    """Whole episodes that are compared with Gymnasium step by step."""
    full_episodes: int = 1_000
    """The same with `RLOX_FULL=1`."""
    free_steps: int = 1_000
    """Steps for which a free-running copy stays beside Gymnasium's: chaos ends it sooner."""

    def observation(self, state: np.ndarray) -> np.ndarray:
        """float32 `[n, obs_dim]` of states `[n, state_dim]`."""
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
