"""The interface between environments and collectors, and checks of environments' return values."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.spaces import NUMERIC_KINDS, ObservationCodec
from rlox.masked_arrays import is_masked

__all__ = [
    "LIFE_LOST",
    "NO_ENVS",
    "RESET_CONTRACT",
    "STEP_CONTRACT",
    "TRUE_RETURN",
    "EpisodeEnds",
    "VectorEnv",
    "WrongTypeError",
    "copy_info",
    "to_flag",
    "to_reward",
    "unpack_reset",
    "unpack_step",
]

# Keys in the info of an episode's last step:
TRUE_RETURN = "rlox/true_return"  # the unshaped return, if rewards are shaped
LIFE_LOST = "rlox/goes_on"  # true if only a life ended and the game continues

NO_ENVS: NDArray[np.int64] = np.empty(0, np.int64)

STEP_CONTRACT = "step must return five values: observation, reward, terminated, truncated, info"
RESET_CONTRACT = "reset must return two values: observation, info"

# Constants, because building a union such as `tuple | list` at every step costs time.
_TUPLES, _BOOLS = (tuple, list), (bool, np.bool_)
_FLOATS, _REALS = (float, np.float64), (float, int, np.floating)


class WrongTypeError(TypeError):
    """An environment returned a value of a type that Gymnasium does not allow."""


def unpack_reset(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """Return the observation and the info of a reset; `WrongTypeError` unless `result` is such a pair."""
    if not isinstance(result, _TUPLES) or len(result) != 2:
        raise WrongTypeError(f"{_describe(result)}; {RESET_CONTRACT}")
    observation, info = result
    return observation, _require_info(info)


def unpack_step(result: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """Return the five values of a step; `WrongTypeError` if one has the wrong type."""
    if not isinstance(result, _TUPLES) or len(result) != 5:
        raise WrongTypeError(f"{_describe(result)}; {STEP_CONTRACT}")
    observation, reward, terminated, truncated, info = result
    if (
        type(terminated) is bool
        and type(truncated) is bool
        and type(reward) in _FLOATS
        and type(info) is dict
    ):  # fast path: the usual types need no check or conversion
        return observation, reward, terminated, truncated, info
    flags = to_flag("terminated", terminated), to_flag("truncated", truncated)
    return observation, to_reward(reward), *flags, _require_info(info)


def to_reward(value: Any) -> float:
    """Convert a real number, or a zero-dimensional array of one, to a float; else raise `WrongTypeError`."""
    try:
        number = _float_or_none(value)
    except Exception:  # raised by the value's class, or for a number too large for a float: 10**400
        number = None
    if number is None:
        raise WrongTypeError(f"{_describe(value)} for the reward, expected a number; return float(...)")
    return number


def to_flag(name: str, value: Any) -> bool:
    """Convert `terminated` or `truncated` to a bool: from a bool, 0, 1, or a zero-dimensional array of these.

    Raises `WrongTypeError` for other values: `bool` would make True of some, such as `[False]` or `"False"`.
    """
    if isinstance(value, _BOOLS):
        return bool(value)
    array = _as_scalar(value)
    if array is None or array not in (0, 1):
        raise WrongTypeError(f"{_describe(value)} for {name}, expected a bool; return bool(...)")
    return bool(array)


def copy_info(value: Any) -> Any:
    """Copy an info, or a part of one, with its dicts, lists, tuples and arrays."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: copy_info(part) for key, part in value.items()}
    kind = type(value)
    return kind(map(copy_info, value)) if kind in (list, tuple) else value


def _require_info(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WrongTypeError(f"{_describe(value)} for the info, expected a dict; return {{}}")
    return value


def _float_or_none(value: Any) -> float | None:
    """Convert one real number to a float; `None` for other values."""
    if isinstance(value, _REALS):
        return float(value)
    array = _as_scalar(value)
    if array is not None:
        return float(array)
    # a NumPy duration counts as an integer
    is_real = isinstance(value, numbers.Real) and not isinstance(value, np.timedelta64)
    return float(value) if is_real else None


def _as_scalar(value: Any) -> NDArray[Any] | None:
    """Return one real number as a zero-dimensional array; `None` for other values."""
    try:
        array = np.asarray(value)
    except Exception:  # raised by the value's class, such as a tensor that requires a gradient
        return None
    is_number = array.shape == () and array.dtype.kind in NUMERIC_KINDS
    return array if is_number and not is_masked(value) else None


def _describe(value: Any) -> str:
    """Describe a value for messages: its type, and its shape or the start of its `repr`."""
    type_name = type(value).__name__
    if isinstance(value, np.ndarray):
        array_text = "a masked array" if is_masked(value) else "an array"
        return f"{array_text} of shape {value.shape} and {value.dtype}"
    if isinstance(value, tuple | list) and len(value) != 1:
        return f"a {type_name} of {len(value)}"
    with suppress(Exception):  # repr can fail: an int of more than 4,300 digits
        return f"{' '.join(repr(value).split())[:60]} ({type_name})"
    return f"a {type_name}"


class EpisodeEnds(NamedTuple):
    """Episodes that a step ended, lost or only began; `step_into` returns `None` if there are none."""

    envs: NDArray[np.int64]  # [k]: environments whose episode ended, ascending
    obs: NDArray[Any]  # [k, obs_dim]: their final observations
    infos: Sequence[Mapping[str, Any]] = ()  # [k]: infos of their last steps; empty for environments in Rust
    lost_envs: NDArray[np.int64] = NO_ENVS  # those whose step was lost, ascending; not in `envs`
    restarts: int = 0  # number of failures after which environments had to restart
    autoreset_envs: NDArray[np.int64] = (
        NO_ENVS  # those whose step only began an episode, ascending; in no other field
    )

    @property
    def invalid_envs(self) -> NDArray[np.int64]:
        """Environments whose row is not a transition: `lost_envs` and `autoreset_envs`."""
        return (
            np.concatenate([self.lost_envs, self.autoreset_envs])
            if len(self.autoreset_envs)
            else self.lost_envs
        )


class VectorEnv(Protocol):
    """`n_envs` environments that step together; each is reset in the step that ends its episode.

    After a step that ended an episode of environment i, row i of `obs` is the first observation of the next
    episode. The ended episode's final observation is in `EpisodeEnds`, with the info of its last step
    (`is_success`, for example), which callbacks receive in `Episode`.

    An environment that fails restarts within the step. The result of the failed step is unknown, so its row
    is not a transition: reward 0, truncated, and row i of `obs` begins another episode. The environment is in
    `EpisodeEnds.lost_envs` and not in `EpisodeEnds.envs`: its episode was cut off at the last observation
    before the step and does not count as finished.

    An engine may need a separate step to begin the next episode (Gymnasium's NEXT_STEP). Row i of `obs` is
    then the ended episode's final observation. The next step ignores its action and is not a transition
    either: reward 0, truncated, in `EpisodeEnds.autoreset_envs`.

    Infos of all steps are kept only on request (`make_vec(keep_infos=True)`), because sending them from
    subprocesses costs more than most steps. `infos[i]` then belongs to row i of `obs`: after an episode has
    begun it is the info of its reset. It is valid until the next step. Environments in Rust have no infos;
    their `infos` is always empty.
    """

    n_envs: int
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    observations: ObservationCodec
    actions: ActionCodec
    resume_grade: str  # "exact", or "episode_start" if the state cannot be saved
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
    ) -> EpisodeEnds | None:
        """Step every environment with policy actions, writing `[n_envs, ...]` rows."""

    def state(self) -> dict[str, Any]:
        """Return the state that `restore` needs to continue from here."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""

    def close(self) -> None:
        """Release processes, windows and memory."""
