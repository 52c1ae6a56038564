"""Hindsight for environments with goals (Andrychowicz et al. 2017): what was reached was meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox._core import HindsightConfig, ReplayBuffer
from rlox.envs.parts import PartsCodec
from rlox.envs.spaces import NUMBERS, ObservationCodec, short
from rlox.errors import ConfigError, EnvError, NonFiniteError, UnsupportedSpaceError
from rlox.importing import wording
from rlox.masked import MASKED, is_masked

__all__ = ["COMPARED", "Goals"]

COMPARED = 1000  # transitions of a run whose reward is compared with that of their own goal
ROUNDING = 1e-3  # of goals to float32, in a reward
PARTS = ("observation", "achieved_goal", "desired_goal")


@dataclass(frozen=True)
class Goals:
    """Observations as parts, and draws of which some have another goal.

    `env`, or its outermost wrapper that has it, is asked for `compute_reward(achieved_goal, desired_goal,
    info)`, goals `[m, ...]` in the form that their space has them, and where there is one for
    `compute_terminated` with the same arguments, `info` empty: both as in Gymnasium-Robotics. A rule that
    gives one answer for many goals is asked for each of them. Rewards are finite numbers, ends are bools or
    0 and 1.
    """

    env: gym.Env[Any, Any]
    codec: PartsCodec
    config: HindsightConfig
    name: str  # of the environment, for errors
    rewards: Callable[[NDArray[Any], NDArray[Any], Any], NDArray[np.float32]]  # of goals in rows
    ends: Callable[..., Any] | None  # the rule, where there is one

    @classmethod
    def of(
        cls, env: gym.Env[Any, Any], codec: ObservationCodec, strategy: str, k: int, name: str
    ) -> Goals:
        """Of an environment, or the error that says what it lacks."""
        lacking = [part for part in PARTS if part not in codec.parts]
        if lacking or not isinstance(codec, PartsCodec):
            raise UnsupportedSpaceError(
                f"buffer.hindsight={strategy}: {name} has no part '{lacking[0]}' in its observations, "
                f"expected a Dict of {', '.join(PARTS)}"
            )
        reached, goal = (codec.codecs[part] for part in ("achieved_goal", "desired_goal"))
        if isinstance(goal, PartsCodec) or _form(reached) != _form(goal):
            raise UnsupportedSpaceError(
                f"buffer.hindsight={strategy}: {name} has achieved_goal {short(reached.space)} and "
                f"desired_goal {short(goal.space)}, expected Boxes of one shape, or one Discrete, "
                "MultiDiscrete or MultiBinary for both"
            )
        reward = _rule(env, "compute_reward")
        if reward is None:
            raise ConfigError(
                f"buffer.hindsight={strategy}: {name} has no compute_reward(achieved_goal, "
                "desired_goal, info)"
            )

        def rewards(achieved: NDArray[Any], desired: NDArray[Any], _: Any) -> NDArray[np.float32]:
            goals = (_as_given(goal, rows) for rows in (achieved, desired))
            return _rewards(f"{name}: compute_reward", reward, *goals)

        hindsight, ends = HindsightConfig(rewards, strategy, k), _rule(env, "compute_terminated")
        return cls(env, codec, hindsight, name, rewards, ends)

    @property
    def spaces(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The parts as a buffer declares them."""
        return {name: (part.dtype.name, (part.dim,)) for name, part in self.codec.codecs.items()}

    def split(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """Columns of rows `[n, obs_dim]` with observations as parts."""
        split = {name: self.codec.split(columns[name]) for name in ("obs", "next_obs")}
        return {**columns, **split}

    def require_paid(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """`EnvError` where rows `[n, obs_dim]` were not paid what `compute_reward` gives for their goal."""
        after, paid = self.codec.split(columns["next_obs"]), columns["rewards"]
        asked = self.rewards(after["achieved_goal"], after["desired_goal"], None)
        other = np.flatnonzero(~np.isclose(paid, asked, rtol=ROUNDING, atol=ROUNDING))
        if len(other):
            raise EnvError(
                f"buffer.hindsight: a step of {self.name} paid {paid[other[0]]:g}, and compute_reward gives "
                f"{asked[other[0]]:g} for the goal of that very step, expected the same: rewards for other "
                "goals would be in other units; give what changes rewards, the environment or a wrapper, a "
                "compute_reward(achieved_goal, desired_goal, info) that pays as its steps do, without a look "
                "into info, or leave out buffer.hindsight"
            )

    def sample(
        self, buffer: ReplayBuffer, batch_size: int, count: int, gamma: float
    ) -> dict[str, Any]:
        """`count` batches with rows `[count, B, obs_dim]`; rewards and ends are those of the goals.

        A row that keeps its goal keeps its end. One with another goal ends where `compute_terminated`
        says so, or where it ended without being at its own goal: a fall is one for every goal. Without
        that rule its end stays as well, whatever it was for, as in Stable-Baselines3.
        """
        drawn = buffer.sample(batch_size, n_batches=count, her=self.config)
        terminated = self._terminated(buffer, drawn)
        for name in ("obs", "next_obs"):
            drawn[name] = self.codec.join(drawn[name])
        drawn["discounts"] = np.where(terminated, 0.0, gamma).astype(np.float32)
        return drawn

    def _terminated(self, buffer: ReplayBuffer, drawn: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Whether the state that a step reached ends the episode for the goal that is pursued."""
        stored: NDArray[np.bool_] = drawn["terminated"]
        rule = self.ends
        if rule is None:
            return stored
        achieved, desired = (
            part.reshape(stored.size, -1)
            for part in (drawn["next_obs"]["achieved_goal"], drawn["next_obs"]["desired_goal"])
        )
        ended, there = stored.ravel().copy(), self._there(rule, achieved, desired)
        unsure = np.flatnonzero(ended | there)  # the others end for no goal
        if len(unsure):
            was, there, achieved = ended[unsure], there[unsure], achieved[unsure]
            rows = buffer.gather(drawn["indices"].ravel()[unsure])
            own: NDArray[Any] = rows["next_obs"]["desired_goal"].reshape(len(unsure), -1)
            kept = (own == desired[unsure]).all(1)
            for_its_goal = self._there(rule, achieved, own)
            ended[unsure] = np.where(kept, was, there | (was & ~for_its_goal))
        return ended.reshape(stored.shape)

    def _there(
        self, rule: Callable[..., Any], achieved: NDArray[Any], desired: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """What the environment's rule says of goals in rows `[m, dim]`: `[m]`."""
        who, codec = f"{self.name}: compute_terminated", self.codec.codecs["desired_goal"]
        goals = (_as_given(codec, rows) for rows in (achieved, desired))
        ended = _answers(who, "bool", rule, *goals)
        odd = (ended != 0) & (ended != 1)
        if odd.any():
            raise EnvError(
                f"{who} returned {ended[odd][0]} for a goal, expected bools, or 0 and 1; "
                "return an array of bool"
            )
        flags: NDArray[np.bool_] = ended != 0
        return flags


def _rule(env: gym.Env[Any, Any], name: str) -> Callable[..., Any] | None:
    """The method of that name, of the outermost wrapper that has it, or of the environment."""
    try:
        found = env.get_wrapper_attr(name)
    except AttributeError:
        return None
    return cast(Callable[..., Any], found) if callable(found) else None


def _form(codec: ObservationCodec) -> Any:
    """What goals have to share, so that one can take the other's place."""
    return (type(codec), codec.shape) if isinstance(codec.space, spaces.Box) else codec.space


def _as_given(codec: ObservationCodec, rows: NDArray[Any]) -> NDArray[Any]:
    """Goals in rows `[m, dim]` as their space has them, `[m, ...]`: an integer is one, not one-hot.

    Floating-point numbers stay float32, as they are stored.
    """
    space: Any = codec.space
    if codec.integers:
        chosen = [rows[:, first : first + n].argmax(1) for first, n in codec.integers]
        rows = np.stack(chosen, 1) + np.reshape(space.start, -1)
    if space.dtype.kind != "f":
        rows = rows.astype(space.dtype)
    return rows.reshape(len(rows), *space.shape)


def _rewards(
    who: str, rule: Callable[..., Any], achieved: NDArray[Any], desired: NDArray[Any]
) -> NDArray[np.float32]:
    """What a rule pays for goals `[m, ...]`: `[m]`, finite."""
    given = _answers(who, "number", rule, achieved, desired)
    with np.errstate(over="ignore"):
        rewards = given.astype(np.float32)
    bad = ~np.isfinite(rewards)
    if bad.any():
        raise NonFiniteError(
            f"{who} returned {given[bad][0]} for a goal, expected numbers that are finite in float32"
        )
    return rewards


def _answers(
    who: str, wanted: str, rule: Callable[..., Any], achieved: NDArray[Any], desired: NDArray[Any]
) -> NDArray[Any]:
    """A real number `[m]` for each of the goals `[m, ...]`; `EnvError` for others, with what is `wanted`."""
    # copies: the rule may write into them, and the goals are learned from
    answers, count = _answer(who, rule, achieved.copy(), desired.copy()), len(desired)
    if answers.size == 1 < count:  # it judges one goal at a time, as `GoalEnv` declares it
        pairs = zip(achieved.copy(), desired.copy(), strict=True)
        answers = np.array([_single(who, wanted, _answer(who, rule, *goals)) for goals in pairs])
    if answers.size != count or answers.dtype.kind not in NUMBERS:
        raise EnvError(
            f"{who} returned an array of shape {answers.shape} and {answers.dtype}, expected a {wanted} for "
            f"each of {count} goals"
        )
    return answers.reshape(count)


def _single(who: str, wanted: str, answer: NDArray[Any]) -> Any:
    """The number that a rule answered for one goal."""
    if answer.size != 1 or answer.dtype.kind not in NUMBERS:
        raise EnvError(f"{who} returned {answer.tolist()!r} for a goal, expected a {wanted}")
    return answer.item()


def _answer(who: str, rule: Callable[..., Any], *goals: NDArray[Any]) -> NDArray[Any]:
    """What a rule says of its goals, as an array."""
    try:
        answer = rule(*goals, {})
    except (Exception, SystemExit) as error:
        raise EnvError(f"{who} raised {type(error).__name__}: {wording(error)}") from error
    if is_masked(answer):
        raise EnvError(f"{who} returned a masked array: {MASKED}")
    try:
        return np.asarray(answer)
    except (ValueError, TypeError, RuntimeError) as error:  # of unequal lengths, of a tensor
        raise EnvError(f"{who} returned what is no array: {wording(error)}") from error
