"""Hindsight with goals of every space: the environment's rules see them as the space has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from rlox import ReplayBuffer
from rlox.configs import UniformConfig
from rlox.envs.spaces import ObservationCodec
from rlox.errors import UnsupportedSpaceError
from rlox.sources.chunk import Stretch
from rlox.sources.goals import COMPARED, Goals
from rlox.sources.memory import Memory

ROWS, BATCH = 40, 200
OWN = 5.0  # the reward of a row that keeps its goal


class Judge(gym.Env[Any, Any]):
    """Judges goals: 0 for those that are reached, -1 for others; keeps what it was asked about."""

    def __init__(self, achieved: spaces.Space[Any], desired: spaces.Space[Any]) -> None:
        self.observation_space = spaces.Dict(
            observation=spaces.Discrete(3), achieved_goal=achieved, desired_goal=desired
        )
        self.asked: list[NDArray[Any]] = []

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        self.asked += [achieved, desired]
        return self.compute_terminated(achieved, desired, info) - 1.0

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (achieved == desired).reshape(len(achieved), -1).all(1)


class JudgeOfOne(Judge):
    """It judges one goal at a time."""

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.array_equal(achieved, desired)


def met(seen: dict[str, Any]) -> NDArray[np.bool_]:
    """Where the goal is reached, of rows that may be one-hot: the same."""
    there: NDArray[np.bool_] = (seen["achieved_goal"] == seen["desired_goal"]).all(-1)
    return there


def judged(kind: type[Judge], space: spaces.Space[Any]) -> tuple[Judge, dict[str, Any]]:
    """A judge, and a batch of 200 rows of episodes of at most 10 steps with goals of `space`."""
    env = kind(space, space)
    env.observation_space.seed(1)
    codec = ObservationCodec.of(env.observation_space)
    goals = Goals.of(env, codec, "future", 4, "Judge")
    buffer = ReplayBuffer(ROWS, act_dim=1, obs_spaces=goals.spaces)
    seen = [env.observation_space.sample() for _ in range(ROWS + 1)]
    rows = codec.encode_batch(seen)
    ends = np.arange(ROWS) % 10 == 9
    given = goals.split({"obs": rows[:-1], "next_obs": rows[1:]})
    there, none = met(given["next_obs"]), np.zeros(ROWS)
    buffer.push_batch(given["obs"], none, none + OWN, there, ends & ~there, given["next_obs"])
    drawn = goals.sample(buffer, BATCH, 1, 0.9)
    return env, {"codec": codec, **{name: rows[0] for name, rows in drawn.items()}}


SPACES = {
    "Discrete": spaces.Discrete(4, start=-2),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2], start=[5, -1]),
    "MultiDiscrete of two axes": spaces.MultiDiscrete([[2, 1], [1, 3]]),
    "MultiBinary": spaces.MultiBinary(2),
    "a Box of integers": spaces.Box(-3, -1, (2,), np.int64),
    "a Box of two axes": spaces.Box(-1, 1, (2, 3), np.float32),
    "an image": spaces.Box(0, 255, (3, 2, 3), np.uint8),
}


@pytest.mark.parametrize("kind", [Judge, JudgeOfOne])
@pytest.mark.parametrize("name", SPACES)
def test_a_rule_is_asked_about_goals_as_their_space_has_them(name: str, kind: type[Judge]) -> None:
    space = SPACES[name]
    env, _ = judged(kind, space)
    many = [goals for goals in env.asked if np.ndim(goals) > len(space.shape or ())]
    assert [goals.dtype for goals in many] == [space.dtype] * 2
    assert all(space.contains(goal) for goals in many for goal in goals)
    assert len(many[0]) > BATCH / 2


@pytest.mark.parametrize("kind", [Judge, JudgeOfOne])
@pytest.mark.parametrize("name", SPACES)
def test_rewards_and_ends_are_those_of_the_new_goals(name: str, kind: type[Judge]) -> None:
    _, batch = judged(kind, SPACES[name])
    reached = met(batch["codec"].split(batch["next_obs"]))
    new = batch["rewards"] != OWN
    assert BATCH / 2 < new.sum() < BATCH
    assert 0 < reached[new].sum() < new.sum()
    np.testing.assert_array_equal(batch["rewards"][new], reached[new] - 1.0)
    np.testing.assert_array_equal(batch["discounts"], np.where(reached, 0, np.float32(0.9)))


OTHERS = [
    (spaces.Discrete(3), spaces.Discrete(4)),
    (spaces.Discrete(3), spaces.Discrete(3, start=1)),
    (spaces.Discrete(3), spaces.Box(0, 1, (3,), np.float32)),
    (spaces.Box(0, 1, (6,), np.float32), spaces.Box(0, 1, (2, 3), np.float32)),
    (spaces.Dict(a=spaces.Discrete(3)), spaces.Dict(a=spaces.Discrete(3))),
    (spaces.Tuple([spaces.Discrete(3)]), spaces.Tuple([spaces.Discrete(3)])),
]


@pytest.mark.parametrize(("achieved", "desired"), OTHERS)
def test_goals_of_two_spaces_or_of_several_parts_are_refused(achieved: Any, desired: Any) -> None:
    env = Judge(achieved, desired)
    codec = ObservationCodec.of(env.observation_space)
    with pytest.raises(
        UnsupportedSpaceError, match=r"^buffer\.hindsight=final: Judge has achieved"
    ):
        Goals.of(env, codec, "final", 4, "Judge")


def test_bounds_of_the_two_goals_may_differ() -> None:
    env = Judge(spaces.Box(-9, 9, (2,)), spaces.Box(-1, 1, (2,)))
    codec = ObservationCodec.of(env.observation_space)
    assert Goals.of(env, codec, "final", 4, "Judge").spaces["desired_goal"] == ("float32", (2,))


def test_the_first_thousand_rewards_of_a_new_run_are_compared_and_none_of_one_that_goes_on() -> (
    None
):
    compared: list[int] = []
    goals: Any = SimpleNamespace(
        require_paid=lambda columns: compared.append(len(columns["rewards"])), split=dict
    )
    zeros, flags = np.zeros((50, 1), np.float32), np.zeros(50, bool)
    rows = {"obs": zeros, "next_obs": zeros, "actions": zeros, "rewards": zeros[:, 0]}
    stretch = Stretch({**rows, "terminated": flags, "truncated": flags}, np.zeros(50, np.int64))
    buffer = ReplayBuffer(64, obs_dim=1, act_dim=1)  # fewer rows than are compared
    for pushes in (30, 1):
        memory = Memory(buffer, UniformConfig(), 4, 1, 0.9, 0, goals)
        for _ in range(pushes):
            memory.push(stretch)
        assert sum(compared) == COMPARED
