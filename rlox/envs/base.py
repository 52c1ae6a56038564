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

# In the info of an episode's last step:
TRUE_RETURN = "rlox/true_return"  # what the environment paid, where rewards are shaped
LIFE_LOST = "rlox/goes_on"  # true where it is an episode for learning only, and the game is not over

NO_ENVS: NDArray[np.int64] = np.empty(0, np.int64)

STEP_CONTRACT = "step must return five values: observation, reward, terminated, truncated, info"
RESET_CONTRACT = "reset must return two values: observation, info"

# Kinds that are asked for at every step: a union such as `tuple | list` would be made at each of them.
_TUPLES, _BOOLS = (tuple, list), (bool, np.bool_)
_FLOATS, _REALS = (float, np.float64), (float, int, np.floating)


class WrongTypeError(TypeError):
    """A value that an environment returned is not of the kind that Gymnasium asks for."""


def unpack_reset(result: Any) -> tuple[Any, Mapping[str, Any]]:
    """The observation and the info that a reset returned; `WrongTypeError` for anything else than a pair."""
    if not isinstance(result, _TUPLES) or len(result) != 2:
        raise WrongTypeError(f"{_describe(result)}; {RESET_CONTRACT}")
    observation, info = result
    return observation, _require_info(info)


def unpack_step(result: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """The five values that a step returned; `WrongTypeError` where one is of another kind."""
    if not isinstance(result, _TUPLES) or len(result) != 5:
        raise WrongTypeError(f"{_describe(result)}; {STEP_CONTRACT}")
    observation, reward, terminated, truncated, info = result
    if (
        type(terminated) is bool
        and type(truncated) is bool
        and type(reward) in _FLOATS
        and type(info) is dict
    ):  # most are at every step: nothing to check or to convert
        return observation, reward, terminated, truncated, info
    flags = to_flag("terminated", terminated), to_flag("truncated", truncated)
    return observation, to_reward(reward), *flags, _require_info(info)


def to_reward(value: Any) -> float:
    """A reward as a float: of any real number, alone or in an array without axes; else `WrongTypeError`."""
    try:
        number = _float_or_none(value)
    except Exception:  # of a class of somebody else's, or too large for a float: 10**400
        number = None
    if number is None:
        raise WrongTypeError(f"{_describe(value)} for the reward, expected a number; return float(...)")
    return number


def to_flag(name: str, value: Any) -> bool:
    """`terminated` or `truncated` as a bool: of a bool, 0 or 1, alone or in an array without axes.

    `WrongTypeError` for anything else, which may be true without meaning it: `[False]`, `"False"`.
    """
    if isinstance(value, _BOOLS):
        return bool(value)
    array = _as_scalar(value)
    if array is None or array not in (0, 1):
        raise WrongTypeError(f"{_describe(value)} for {name}, expected a bool; return bool(...)")
    return bool(array)


def copy_info(value: Any) -> Any:
    """An info, or a part of one, whose dicts, lists, tuples and arrays are not the environment's own."""
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
    """One real number as a float; `None` for anything else."""
    if isinstance(value, _REALS):
        return float(value)
    array = _as_scalar(value)
    if array is not None:
        return float(array)
    # a duration is an integer to Python alone
    is_real = isinstance(value, numbers.Real) and not isinstance(value, np.timedelta64)
    return float(value) if is_real else None


def _as_scalar(value: Any) -> NDArray[Any] | None:
    """One real number as an array without axes; `None` for anything else."""
    try:
        array = np.asarray(value)
    except Exception:  # of a class of somebody else's: a tensor that needs a gradient
        return None
    is_number = array.shape == () and array.dtype.kind in NUMERIC_KINDS
    return array if is_number and not is_masked(value) else None


def _describe(value: Any) -> str:
    """What something is, for messages: its type, with its shape or the beginning of its text."""
    type_name = type(value).__name__
    if isinstance(value, np.ndarray):
        array_text = "a masked array" if is_masked(value) else "an array"
        return f"{array_text} of shape {value.shape} and {value.dtype}"
    if isinstance(value, tuple | list) and len(value) != 1:
        return f"a {type_name} of {len(value)}"
    with suppress(Exception):  # not everything has a text: an int of more than 4,300 digits
        return f"{' '.join(repr(value).split())[:60]} ({type_name})"
    return f"a {type_name}"


class EpisodeEnds(NamedTuple):
    """Last observations of the episodes that ended in a step: a sparse table, `None` when none did."""

    envs: NDArray[np.int64]  # [k], ascending
    obs: NDArray[Any]  # [k, obs_dim]
    infos: Sequence[Mapping[str, Any]] = ()  # [k], of the steps that ended them; none from Rust
    lost_envs: NDArray[np.int64] = NO_ENVS  # whose step was not observed, ascending; none of `envs`
    restarts: int = 0  # failures after which environments had to begin anew
    autoreset_envs: NDArray[np.int64] = (
        NO_ENVS  # whose step only began an episode, ascending; none of the others
    )

    @property
    def invalid_envs(self) -> NDArray[np.int64]:
        """Environments whose row is no transition: those of `lost_envs` and `autoreset_envs`."""
        return (
            np.concatenate([self.lost_envs, self.autoreset_envs])
            if len(self.autoreset_envs)
            else self.lost_envs
        )


class VectorEnv(Protocol):
    """`n_envs` environments stepped together, each reset in the same step that ends its episode.

    After a step that ended environment i, row i of `obs` is the first observation of its next
    episode and the ended episode's last observation is in `EpisodeEnds`, with the info of its last step
    (`is_success`, say), which `Episode` carries on to callbacks.

    An environment that failed has begun anew within the step. What that step led to nobody knows, so its
    row is no transition: reward 0, truncated, and row i of `obs` begins another episode. It is in
    `EpisodeEnds.lost_envs` and not in `EpisodeEnds.envs`: its episode was cut off where it was last observed,
    before the step, and is not a finished one.

    An engine may need a step of its own to begin an episode after one that ended (Gymnasium's NEXT_STEP).
    Row i of `obs` is then the ended episode's last observation, and the next step, whose action is
    ignored, is no transition either: reward 0, truncated, in `EpisodeEnds.autoreset_envs`.

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
    ) -> EpisodeEnds | None:
        """Step every environment with policy actions, writing `[n_envs, ...]` rows."""

    def state(self) -> dict[str, Any]:
        """What `restore` needs to go on from here."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""

    def close(self) -> None:
        """Release processes, windows and memory."""
