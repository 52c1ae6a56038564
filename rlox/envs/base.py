"""The one interface between environments and collectors, and what an environment may return."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.spaces import NUMBERS, ObservationCodec
from rlox.masked import is_masked

__all__ = [
    "FIVE_VALUES",
    "GOES_ON",
    "NOBODY",
    "TRUE_RETURN",
    "TWO_VALUES",
    "Finals",
    "VectorEnv",
    "WrongKindError",
    "copied",
    "flag_of",
    "reset_of",
    "reward_of",
    "step_of",
]

# In the info of an episode's last step:
TRUE_RETURN = "rlox/true_return"  # what the environment paid, where rewards are shaped
GOES_ON = "rlox/goes_on"  # true where it is an episode for learning only, and the game is not over

NOBODY: NDArray[np.int64] = np.empty(0, np.int64)

FIVE_VALUES = "step must return five values: observation, reward, terminated, truncated, info"
TWO_VALUES = "reset must return two values: observation, info"

# Kinds that are asked for at every step: a union such as `tuple | list` would be made at each of them.
_TUPLES, _BOOLS = (tuple, list), (bool, np.bool_)
_FLOATS, _REALS = (float, np.float64), (float, int, np.floating)


class WrongKindError(TypeError):
    """A value that an environment returned is not of the kind that Gymnasium asks for."""


def reset_of(given: Any) -> tuple[Any, Mapping[str, Any]]:
    """The observation and the info that a reset returned; `WrongKindError` for anything else than a pair."""
    if not isinstance(given, _TUPLES) or len(given) != 2:
        raise WrongKindError(f"{_kind_of(given)}; {TWO_VALUES}")
    seen, info = given
    return seen, _info_of(info)


def step_of(given: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """The five values that a step returned; `WrongKindError` where one is of another kind."""
    if not isinstance(given, _TUPLES) or len(given) != 5:
        raise WrongKindError(f"{_kind_of(given)}; {FIVE_VALUES}")
    seen, reward, terminated, truncated, info = given
    if (
        type(terminated) is bool
        and type(truncated) is bool
        and type(reward) in _FLOATS
        and type(info) is dict
    ):  # most are at every step: nothing to check or to convert
        return seen, reward, terminated, truncated, info
    flags = flag_of("terminated", terminated), flag_of("truncated", truncated)
    return seen, reward_of(reward), *flags, _info_of(info)


def reward_of(given: Any) -> float:
    """A reward as a float: of any real number, alone or in an array without axes; else `WrongKindError`."""
    try:
        number = _real(given)
    except Exception:  # of a class of somebody else's, or too large for a float: 10**400
        number = None
    if number is None:
        raise WrongKindError(
            f"{_kind_of(given)} for the reward, expected a number; return float(...)"
        )
    return number


def flag_of(name: str, given: Any) -> bool:
    """`terminated` or `truncated` as a bool: of a bool, 0 or 1, alone or in an array without axes.

    `WrongKindError` for anything else, which may be true without meaning it: `[False]`, `"False"`.
    """
    if isinstance(given, _BOOLS):
        return bool(given)
    array = _single(given)
    if array is None or array not in (0, 1):
        raise WrongKindError(f"{_kind_of(given)} for {name}, expected a bool; return bool(...)")
    return bool(array)


def copied(given: Any) -> Any:
    """An info, or a part of one, whose dicts, lists, tuples and arrays are not the environment's own."""
    if isinstance(given, np.ndarray):
        return given.copy()
    if isinstance(given, Mapping):
        return {key: copied(part) for key, part in given.items()}
    kind = type(given)
    return kind(map(copied, given)) if kind in (list, tuple) else given


def _info_of(given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise WrongKindError(f"{_kind_of(given)} for the info, expected a dict; return {{}}")
    return given


def _real(given: Any) -> float | None:
    """One real number as a float; `None` for anything else."""
    if isinstance(given, _REALS):
        return float(given)
    array = _single(given)
    if array is not None:
        return float(array)
    # a duration is an integer to Python alone
    real = isinstance(given, numbers.Real) and not isinstance(given, np.timedelta64)
    return float(given) if real else None


def _single(given: Any) -> NDArray[Any] | None:
    """One real number as an array without axes; `None` for anything else."""
    try:
        array = np.asarray(given)
    except Exception:  # of a class of somebody else's: a tensor that needs a gradient
        return None
    number = array.shape == () and array.dtype.kind in NUMBERS
    return array if number and not is_masked(given) else None


def _kind_of(given: Any) -> str:
    """What something is, for messages: its type, with its shape or the beginning of its text."""
    kind = type(given).__name__
    if isinstance(given, np.ndarray):
        array = "a masked array" if is_masked(given) else "an array"
        return f"{array} of shape {given.shape} and {given.dtype}"
    if isinstance(given, tuple | list) and len(given) != 1:
        return f"a {kind} of {len(given)}"
    with suppress(Exception):  # not everything has a text: an int of more than 4,300 digits
        return f"{' '.join(repr(given).split())[:60]} ({kind})"
    return f"a {kind}"


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
