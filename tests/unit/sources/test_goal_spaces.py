"""Tests hindsight with goals of every space: the environment's rules get elements of this space."""

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
from rlox.envs.parts_codec import codec_of
from rlox.errors import UnsupportedSpaceError
from rlox.sources.hindsight import MAX_COMPARED, HindsightRelabeler
from rlox.sources.replay_sampler import ReplaySampler
from rlox.sources.transition_chunks import TransitionChunk

N_ROWS, BATCH_SIZE = 40, 200
OWN_REWARD = 5.0  # the reward of a row that keeps its goal


class GoalEnv(gym.Env[Any, Any]):
    """Judges goals: 0 for reached goals, -1 for others. Keeps the goals of each call."""

    def __init__(self, achieved: spaces.Space[Any], desired: spaces.Space[Any]) -> None:
        self.observation_space = spaces.Dict(
            observation=spaces.Discrete(3), achieved_goal=achieved, desired_goal=desired
        )
        self.rule_goals: list[NDArray[Any]] = []

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        self.rule_goals += [achieved, desired]
        return self.compute_terminated(achieved, desired, info) - 1.0

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (achieved == desired).reshape(len(achieved), -1).all(1)


class SingleGoalEnv(GoalEnv):
    """Judges one goal at a time."""

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.array_equal(achieved, desired)


def goal_reached(obs: dict[str, Any]) -> NDArray[np.bool_]:
    """Returns in which rows the goal is reached; goals may be one-hot."""
    is_reached: NDArray[np.bool_] = (obs["achieved_goal"] == obs["desired_goal"]).all(-1)
    return is_reached


def sample_relabeled(env_class: type[GoalEnv], space: spaces.Space[Any]) -> tuple[GoalEnv, dict[str, Any]]:
    """Returns the environment, and 200 rows of episodes of at most 10 steps with goals of `space`."""
    env = env_class(space, space)
    env.observation_space.seed(1)
    codec = codec_of(env.observation_space)
    hindsight = HindsightRelabeler.of(env, codec, "future", 4, "Judge")
    buffer = ReplayBuffer(N_ROWS, act_dim=1, obs_spaces=hindsight.spaces)
    observations = [env.observation_space.sample() for _ in range(N_ROWS + 1)]
    rows = codec.encode_batch(observations)
    episode_ends = np.arange(N_ROWS) % 10 == 9
    columns = hindsight.split({"obs": rows[:-1], "next_obs": rows[1:]})
    is_reached, zeros = goal_reached(columns["next_obs"]), np.zeros(N_ROWS)
    buffer.push_batch(
        columns["obs"],
        zeros,
        zeros + OWN_REWARD,
        is_reached,
        episode_ends & ~is_reached,
        columns["next_obs"],
    )
    sample = hindsight.sample(buffer, BATCH_SIZE, 1, 0.9)
    return env, {"codec": codec, **{name: rows[0] for name, rows in sample.items()}}


SPACES = {
    "Discrete": spaces.Discrete(4, start=-2),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2], start=[5, -1]),
    "MultiDiscrete of two axes": spaces.MultiDiscrete([[2, 1], [1, 3]]),
    "MultiBinary": spaces.MultiBinary(2),
    "a Box of integers": spaces.Box(-3, -1, (2,), np.int64),
    "a Box of two axes": spaces.Box(-1, 1, (2, 3), np.float32),
    "an image": spaces.Box(0, 255, (3, 2, 3), np.uint8),
}


@pytest.mark.parametrize("kind", [GoalEnv, SingleGoalEnv])
@pytest.mark.parametrize("name", SPACES)
def test_a_rule_gets_goals_that_are_elements_of_their_space(name: str, kind: type[GoalEnv]) -> None:
    space = SPACES[name]
    env, _ = sample_relabeled(kind, space)
    many = [goals for goals in env.rule_goals if np.ndim(goals) > len(space.shape or ())]
    assert [goals.dtype for goals in many] == [space.dtype] * 2
    assert all(space.contains(goal) for goals in many for goal in goals)
    assert len(many[0]) > BATCH_SIZE / 2


@pytest.mark.parametrize("kind", [GoalEnv, SingleGoalEnv])
@pytest.mark.parametrize("name", SPACES)
def test_rewards_and_ends_are_those_of_the_new_goals(name: str, kind: type[GoalEnv]) -> None:
    _, batch = sample_relabeled(kind, SPACES[name])
    reached = goal_reached(batch["codec"].split(batch["next_obs"]))
    new = batch["rewards"] != OWN_REWARD
    assert BATCH_SIZE / 2 < new.sum() < BATCH_SIZE
    assert 0 < reached[new].sum() < new.sum()
    np.testing.assert_array_equal(batch["rewards"][new], reached[new] - 1.0)
    np.testing.assert_array_equal(batch["discounts"], np.where(reached, 0, np.float32(0.9)))


UNEQUAL_SPACES = [
    (spaces.Discrete(3), spaces.Discrete(4)),
    (spaces.Discrete(3), spaces.Discrete(3, start=1)),
    (spaces.Discrete(3), spaces.Box(0, 1, (3,), np.float32)),
    (spaces.Box(0, 1, (6,), np.float32), spaces.Box(0, 1, (2, 3), np.float32)),
    (spaces.Dict(a=spaces.Discrete(3)), spaces.Dict(a=spaces.Discrete(3))),
    (spaces.Tuple([spaces.Discrete(3)]), spaces.Tuple([spaces.Discrete(3)])),
]


@pytest.mark.parametrize(("achieved", "desired"), UNEQUAL_SPACES)
def test_goals_of_two_spaces_or_of_several_parts_are_refused(achieved: Any, desired: Any) -> None:
    env = GoalEnv(achieved, desired)
    codec = codec_of(env.observation_space)
    with pytest.raises(UnsupportedSpaceError, match=r"^buffer\.hindsight=final: Judge has achieved"):
        HindsightRelabeler.of(env, codec, "final", 4, "Judge")


def test_bounds_of_the_two_goals_may_differ() -> None:
    env = GoalEnv(spaces.Box(-9, 9, (2,)), spaces.Box(-1, 1, (2,)))
    codec = codec_of(env.observation_space)
    assert HindsightRelabeler.of(env, codec, "final", 4, "Judge").spaces["desired_goal"] == (
        "float32",
        (2,),
    )


def test_hindsight_compares_only_the_first_thousand_rewards_of_a_new_run() -> None:
    compared: list[int] = []
    goals: Any = SimpleNamespace(
        require_consistent_rewards=lambda columns: compared.append(len(columns["rewards"])), split=dict
    )
    zeros, flags = np.zeros((50, 1), np.float32), np.zeros(50, bool)
    rows = {"obs": zeros, "next_obs": zeros, "actions": zeros, "rewards": zeros[:, 0]}
    stretch = TransitionChunk({**rows, "terminated": flags, "truncated": flags}, np.zeros(50, np.int64))
    buffer = ReplayBuffer(64, obs_dim=1, act_dim=1)  # fewer rows than hindsight compares
    for pushes in (30, 1):
        memory = ReplaySampler(buffer, UniformConfig(), 4, 1, 0.9, 0, goals)
        for _ in range(pushes):
            memory.push(stretch)
        assert sum(compared) == MAX_COMPARED
