"""The one interface between environments and collectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.spaces import NUMBERS, ObservationCodec

__all__ = ["GOES_ON", "NOBODY", "TRUE_RETURN", "Finals", "VectorEnv", "reward_of"]

# In the info of an episode's last step:
TRUE_RETURN = "rlox/true_return"  # what the environment paid, where rewards are shaped
GOES_ON = "rlox/goes_on"  # true where it is an episode for learning only, and the game is not over

NOBODY: NDArray[np.int64] = np.empty(0, np.int64)


def reward_of(given: Any) -> float:
    """A reward that an environment pays; `TypeError` for what is no number and `float` would make one of."""
    if isinstance(given, float | int):  # numpy's float64 too
        return float(given)
    kind = given.dtype.kind if isinstance(given, np.ndarray | np.generic) else "f"
    if kind not in NUMBERS or isinstance(given, str | bytes | bytearray):
        raise TypeError(f"the reward {given!r} is a {type(given).__name__}, expected a number")
    return float(given)


class Finals(NamedTuple):
    """Last observations of the episodes that ended in a step: a sparse table, `None` when none did."""

    envs: NDArray[np.int64]  # [k], ascending
    obs: NDArray[Any]  # [k, obs_dim]
    infos: Sequence[Mapping[str, Any]] = ()  # [k], of the steps that ended them; none from Rust
    lost: NDArray[np.int64] = NOBODY  # whose step was not observed, ascending; none of `envs`
    restarts: int = 0  # failures after which environments had to begin anew
    idle: NDArray[np.int64] = (
        NOBODY  # whose step only began an episode, ascending; none of the others
    )

    @property
    def void(self) -> NDArray[np.int64]:
        """Environments whose row is no transition: those of `lost` and `idle`."""
        return np.concatenate([self.lost, self.idle]) if len(self.idle) else self.lost


class VectorEnv(Protocol):
    """`n_envs` environments stepped together, each reset in the same step that ends its episode.

    After a step that ended environment i, row i of `obs` is the first observation of its next
    episode and the ended episode's last observation is in `Finals`, with the info of its last step
    (`is_success`, say), which `Episode` carries on to callbacks.

    An environment that failed has begun anew within the step. What that step led to nobody knows, so its
    row is no transition: reward 0, truncated, and row i of `obs` begins another episode. It is in
    `Finals.lost` and not in `Finals.envs`: its episode was cut off where it was last observed, before the
    step, and is not a finished one.

    An engine may need a step of its own to begin an episode after one that ended (Gymnasium's NEXT_STEP).
    Row i of `obs` is then the ended episode's last observation, and the next step, whose action is
    ignored, is no transition either: reward 0, truncated, in `Finals.idle`.

    The infos of all steps are kept only where they were asked for (`make_vec(keep_infos=True)`): to
    send them from subprocesses costs more than most steps do. `infos[i]` then belongs to row i of
    `obs`: for an episode that has just begun it is the info of its reset. It holds until the next
    step. Environments in Rust have no infos: theirs is empty either way.
    """

    n_envs: int
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    observations: ObservationCodec
    actions: ActionCodec
    resume_grade: str  # "exact", or "episode_start" where the state cannot be saved
    infos: Sequence[Mapping[str, Any]]  # [n_envs] of the last step or reset; empty unless kept

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment with policy actions, writing `[n_envs, ...]` rows."""

    def state(self) -> dict[str, Any]:
        """What `restore` needs to go on from here."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""

    def close(self) -> None:
        """Release processes, windows and memory."""
