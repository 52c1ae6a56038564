"""Hindsight experience replay (Andrychowicz et al. 2017): replays transitions with goals reached later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import HindsightConfig, ReplayBuffer
from rlox.envs.parts_codec import PartsCodec
from rlox.envs.spaces import NUMERIC_KINDS, ObservationCodec, format_space
from rlox.errors import ConfigError, EnvError, NonFiniteError, UnsupportedSpaceError, one_line_message
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = ["MAX_COMPARED", "HindsightRelabeler"]

MAX_COMPARED = 1000  # transitions of a run whose reward is checked against `compute_reward`
REWARD_TOLERANCE = 1e-3  # a reward may change by this much when goals are rounded to float32
GOAL_KEYS = ("observation", "achieved_goal", "desired_goal")


@dataclass(frozen=True)
class HindsightRelabeler:
    """Splits observations into parts and samples batches in which some transitions have another goal.

    `env` or one of its wrappers has the method `compute_reward(achieved_goal, desired_goal, info)`, and
    optionally `compute_terminated` with the same arguments, both as in Gymnasium-Robotics; the method of the
    outermost wrapper is used. Goals are `[m, ...]` in the form of their space; `info` is empty. A method that
    returns one value for many goals is called for each goal. Rewards are finite numbers, terminations are
    bools or 0 and 1.
    """

    env: gym.Env[Any, Any]
    codec: PartsCodec
    config: HindsightConfig
    name: str  # of the environment, for error messages
    compute_rewards: Callable[[NDArray[Any], NDArray[Any], Any], NDArray[np.float32]]  # for goals in rows
    compute_terminated: Callable[..., Any] | None  # the environment's method, if any

    @classmethod
    def of(
        cls, env: gym.Env[Any, Any], codec: ObservationCodec, strategy: str, k: int, name: str
    ) -> HindsightRelabeler:
        """Make the relabeler of an environment; the errors say what the environment lacks."""
        missing_parts = [part for part in GOAL_KEYS if part not in codec.parts]
        if missing_parts or not isinstance(codec, PartsCodec):
            raise UnsupportedSpaceError(
                f"buffer.hindsight={strategy}: {name} has no part '{missing_parts[0]}' in its observations, "
                f"expected a Dict of {', '.join(GOAL_KEYS)}"
            )
        reached_codec, goal_codec = (codec.codecs[part] for part in ("achieved_goal", "desired_goal"))
        if isinstance(goal_codec, PartsCodec) or _goal_format(reached_codec) != _goal_format(goal_codec):
            raise UnsupportedSpaceError(
                f"buffer.hindsight={strategy}: {name} has achieved_goal {format_space(reached_codec.space)} "
                f"and desired_goal {format_space(goal_codec.space)}, expected Boxes of one shape, or one "
                "Discrete, MultiDiscrete or MultiBinary for both"
            )
        compute_reward = _find_method(env, "compute_reward")
        if compute_reward is None:
            raise ConfigError(
                f"buffer.hindsight={strategy}: {name} has no compute_reward(achieved_goal, "
                "desired_goal, info)"
            )

        def compute_rewards(achieved: NDArray[Any], desired: NDArray[Any], _: Any) -> NDArray[np.float32]:
            goals = (_to_env_goals(goal_codec, rows) for rows in (achieved, desired))
            return _compute_rewards(f"{name}: compute_reward", compute_reward, *goals)

        hindsight_config, compute_terminated = (
            HindsightConfig(compute_rewards, strategy, k),
            _find_method(env, "compute_terminated"),
        )
        return cls(env, codec, hindsight_config, name, compute_rewards, compute_terminated)

    @property
    def spaces(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The parts as a buffer declares them."""
        return {name: (part.dtype.name, (part.dim,)) for name, part in self.codec.codecs.items()}

    def split(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Split observations in columns of rows `[n, obs_dim]` into parts."""
        split = {name: self.codec.split(columns[name]) for name in ("obs", "next_obs")}
        return {**columns, **split}

    def require_consistent_rewards(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Raise `EnvError` if rewards of rows `[n, obs_dim]` differ from `compute_reward` for their goals."""
        next_obs, rewards = self.codec.split(columns["next_obs"]), columns["rewards"]
        expected = self.compute_rewards(next_obs["achieved_goal"], next_obs["desired_goal"], None)
        mismatched = np.flatnonzero(
            ~np.isclose(rewards, expected, rtol=REWARD_TOLERANCE, atol=REWARD_TOLERANCE)
        )
        if len(mismatched):
            raise EnvError(
                f"buffer.hindsight: a step of {self.name} had the reward {rewards[mismatched[0]]:g}, but "
                f"compute_reward gives {expected[mismatched[0]]:g} for the goal of that step; expected the "
                "same, since compute_reward also gives the rewards for other goals. Give the environment or "
                "the wrapper that changes rewards a compute_reward(achieved_goal, desired_goal, info) that "
                "returns the rewards of its steps without reading info, or leave out buffer.hindsight"
            )

    def sample(self, buffer: ReplayBuffer, batch_size: int, count: int, gamma: float) -> dict[str, Any]:
        """Sample `count` batches with rows `[count, B, obs_dim]`; rewards and terminations fit the goals.

        A row that keeps its goal keeps its termination. A row with another goal terminates if
        `compute_terminated` says so, or if it terminated without reaching its own goal, since a fall ends the
        episode for every goal. Without the method every row keeps its termination, as in Stable-Baselines3.
        """
        sample = buffer.sample(batch_size, n_batches=count, her=self.config)
        terminated = self._terminated(buffer, sample)
        for name in ("obs", "next_obs"):
            sample[name] = self.codec.join(sample[name])
        sample["discounts"] = np.where(terminated, 0.0, gamma).astype(np.float32)
        return sample

    def _terminated(self, buffer: ReplayBuffer, sample: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Whether each reached state terminates the episode for its (perhaps replaced) goal."""
        stored_flags: NDArray[np.bool_] = sample["terminated"]
        compute_terminated = self.compute_terminated
        if compute_terminated is None:
            return stored_flags
        achieved, desired = (
            part.reshape(stored_flags.size, -1)
            for part in (sample["next_obs"]["achieved_goal"], sample["next_obs"]["desired_goal"])
        )
        terminated, reaches_goal = (
            stored_flags.ravel().copy(),
            self._is_goal_terminal(compute_terminated, achieved, desired),
        )
        undecided_rows = np.flatnonzero(terminated | reaches_goal)  # the other rows do not terminate
        if len(undecided_rows):
            stored_undecided, reaches_goal, achieved = (
                terminated[undecided_rows],
                reaches_goal[undecided_rows],
                achieved[undecided_rows],
            )
            rows = buffer.gather(sample["indices"].ravel()[undecided_rows])
            own_goal: NDArray[Any] = rows["next_obs"]["desired_goal"].reshape(len(undecided_rows), -1)
            has_own_goal = (own_goal == desired[undecided_rows]).all(1)
            reaches_own_goal = self._is_goal_terminal(compute_terminated, achieved, own_goal)
            terminated[undecided_rows] = np.where(
                has_own_goal, stored_undecided, reaches_goal | (stored_undecided & ~reaches_own_goal)
            )
        return terminated.reshape(stored_flags.shape)

    def _is_goal_terminal(
        self, compute_terminated: Callable[..., Any], achieved: NDArray[Any], desired: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """Return `compute_terminated` for goals in rows `[m, dim]`, as `[m]`."""
        label, codec = f"{self.name}: compute_terminated", self.codec.codecs["desired_goal"]
        goals = (_to_env_goals(codec, rows) for rows in (achieved, desired))
        flags = _call_method_per_goal(label, "bool", compute_terminated, *goals)
        is_invalid = (flags != 0) & (flags != 1)
        if is_invalid.any():
            raise EnvError(
                f"{label} returned {flags[is_invalid][0]} for a goal, expected bools, or 0 and 1; "
                "return an array of bool"
            )
        is_terminal: NDArray[np.bool_] = flags != 0
        return is_terminal


def _find_method(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    """Return the method `name` of the outermost wrapper that has it, or of the environment; else None."""
    try:
        attribute = env.get_wrapper_attr(name)
    except AttributeError:
        return None
    return cast(Callable[..., Any], attribute) if callable(attribute) else None


def _goal_format(codec: ObservationCodec) -> Any:
    """Return what two goal spaces must share so that one goal can replace the other."""
    return (type(codec), codec.shape) if isinstance(codec.space, spaces.Box) else codec.space


def _to_env_goals(codec: ObservationCodec, rows: NDArray[Any]) -> NDArray[Any]:
    """Convert goals in rows `[m, dim]` to the form of their space, `[m, ...]`: integers are not one-hot.

    Floating-point numbers stay float32, as they are stored.
    """
    space: Any = codec.space
    if codec.one_hot_columns:
        choices = [rows[:, start : start + n].argmax(1) for start, n in codec.one_hot_columns]
        rows = np.stack(choices, 1) + np.reshape(space.start, -1)
    if space.dtype.kind != "f":
        rows = rows.astype(space.dtype)
    return rows.reshape(len(rows), *space.shape)


def _compute_rewards(
    label: str, method: Callable[..., Any], achieved: NDArray[Any], desired: NDArray[Any]
) -> NDArray[np.float32]:
    """Return the rewards `[m]` of goals `[m, ...]`, all finite."""
    raw_rewards = _call_method_per_goal(label, "number", method, achieved, desired)
    with np.errstate(over="ignore"):
        rewards = raw_rewards.astype(np.float32)
    is_non_finite = ~np.isfinite(rewards)
    if is_non_finite.any():
        raise NonFiniteError(
            f"{label} returned {raw_rewards[is_non_finite][0]} for a goal, expected numbers that are finite "
            "in float32"
        )
    return rewards


def _call_method_per_goal(
    label: str, expected: str, method: Callable[..., Any], achieved: NDArray[Any], desired: NDArray[Any]
) -> NDArray[Any]:
    """Return one real number for each of the goals `[m, ...]`, as `[m]`, else `EnvError`."""
    # copies: the method may write into them, and the goals are part of the batch
    results, n_goals = _call_method(label, method, achieved.copy(), desired.copy()), len(desired)
    if results.size == 1 < n_goals:  # it takes one goal at a time, as `GoalEnv` declares it
        pairs = zip(achieved.copy(), desired.copy(), strict=True)
        results = np.array(
            [_as_scalar(label, expected, _call_method(label, method, *goals)) for goals in pairs]
        )
    if results.size != n_goals or results.dtype.kind not in NUMERIC_KINDS:
        raise EnvError(
            f"{label} returned an array of shape {results.shape} and {results.dtype}, expected a {expected} "
            f"for each of {n_goals} goals"
        )
    return results.reshape(n_goals)


def _as_scalar(label: str, expected: str, result: NDArray[Any]) -> Any:
    """Return the number that the method returned for one goal."""
    if result.size != 1 or result.dtype.kind not in NUMERIC_KINDS:
        raise EnvError(f"{label} returned {result.tolist()!r} for a goal, expected a {expected}")
    return result.item()


def _call_method(label: str, method: Callable[..., Any], *goals: NDArray[Any]) -> NDArray[Any]:
    """Call the method with goals and an empty info; return the result as an array."""
    try:
        result = method(*goals, {})
    except (Exception, SystemExit) as error:
        raise EnvError(f"{label} raised {type(error).__name__}: {one_line_message(error)}") from error
    if is_masked(result):
        raise EnvError(f"{label} returned a masked array: {MASKED_MESSAGE}")
    try:
        return np.asarray(result)
    except (ValueError, TypeError, RuntimeError) as error:  # unequal lengths, or a tensor
        raise EnvError(f"{label} returned a value that is no array: {one_line_message(error)}") from error
