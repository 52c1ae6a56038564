"""Tests columns of every type, and buffers for Gymnasium spaces."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rlox import ReplayBuffer
from rlox.errors import ShapeError, UnsupportedSpaceError

BOX = gym.spaces.Box(0, 255, (4, 8, 8), np.uint8)
VECTOR = gym.spaces.Box(-1, 1, (3,), np.float32)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "int8", "int16", "int32", "int64"])
def test_whole_numbers_come_back_to_the_last_and_one_more_is_refused(dtype):
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.max], dtype)
    buffer = ReplayBuffer(10, 2, 1, obs_dtype=dtype, action_dtype=dtype)
    buffer.push(ends, limits.max, 0.0, False, False, ends[::-1].tolist())
    batch = buffer.gather([0])
    assert batch["obs"].dtype == batch["actions"].dtype == dtype
    assert batch["obs"].tolist() == [ends.tolist()]
    assert batch["next_obs"].tolist() == [ends[::-1].tolist()]
    assert batch["actions"].tolist() == [[limits.max]]
    outside = [np.array([limits.min, int(limits.max) + 1], np.uint64 if limits.min == 0 else None)]
    outside.append(np.array([0, 2**63], np.uint64))
    for wrong in outside:
        with pytest.raises(ShapeError):
            buffer.push(wrong, 0, 0.0, False, False)
    assert len(buffer) == 1


def test_a_uint64_column_holds_all_its_numbers_and_no_negative_one():
    buffer = ReplayBuffer(10, 2, 1, obs_dtype="uint64")
    buffer.push(np.array([0, 2**64 - 1], np.uint64), 0.0, 0.0, False, False, np.array([2**63, 1], np.uint64))
    batch = buffer.gather([0])
    assert batch["obs"].tolist() == [[0, 2**64 - 1]] and batch["next_obs"].tolist() == [[2**63, 1]]
    with pytest.raises(ShapeError, match="-1"):
        buffer.push(np.array([-1, 0]), 0.0, 0.0, False, False)


@pytest.mark.parametrize(
    "space",
    [gym.spaces.Discrete(3), gym.spaces.MultiDiscrete([2, 3]), gym.spaces.MultiBinary(4), VECTOR],
    ids=lambda space: type(space).__name__,
)
def test_samples_of_a_space_come_back_as_they_went_in(space):
    buffer = ReplayBuffer.from_spaces(space, space, 10)
    space.seed(1)
    obs, action = space.sample(), space.sample()
    buffer.push(obs, action, 0.0, True, False)
    batch = buffer.gather([0])
    assert batch["obs"].dtype == batch["actions"].dtype == space.dtype
    np.testing.assert_array_equal(batch["obs"][0], obs)
    np.testing.assert_array_equal(batch["actions"][0].reshape(space.shape), action)


def test_images_and_goals_keep_their_columns():
    buffer = ReplayBuffer.from_spaces(BOX, gym.spaces.Discrete(3), 10, frame_stack=(4, "first"))
    buffer.push(BOX.sample(), 2, 0.0, False, False)
    batch = buffer.sample(2)
    assert (batch["obs"].shape, batch["obs"].dtype) == ((2, 4, 8, 8), np.uint8)
    assert (batch["actions"].shape, batch["actions"].dtype) == ((2, 1), np.int64)
    goal = gym.spaces.Dict(observation=BOX, desired_goal=gym.spaces.Box(-1, 1, (2,), np.float32))
    assert ReplayBuffer.from_spaces(goal, VECTOR, 10, n_envs=2, seed=1).n_envs == 2


def test_a_space_whose_elements_are_no_arrays_is_refused():
    with pytest.raises(UnsupportedSpaceError, match="expected a Box"):
        ReplayBuffer.from_spaces(gym.spaces.Text(3), VECTOR, 10)
