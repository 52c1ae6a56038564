"""Tests states of ReplayBuffer: what they restore, and which ones are refused."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.transitions import episodes, push_batch

from rlox import ReplayBuffer
from rlox.errors import CheckpointError, ShapeError

HELD = np.arange(36, 100)
REFUSED = (CheckpointError, ShapeError)


@pytest.fixture(params=["rows", "frames"])
def buffer(request):
    """Pushes 100 rows into 64 places; observations are stacks of two frames."""
    rng = np.random.default_rng(0)
    stack = (2, "last") if request.param == "frames" else None
    made = ReplayBuffer(64, act_dim=1, obs_shape=(3, 2), frame_stack=stack)
    frames = rng.normal(size=(101, 3)).astype(np.float32)
    stacks = np.lib.stride_tricks.sliding_window_view(frames, 2, axis=0)
    batch = {key: array[:99] for key, array in episodes(99, rng).items()}
    push_batch(made, batch | {"obs": stacks[:-1], "next_obs": stacks[1:]})
    made.push(stacks[-1], 0.5, 1.0, False, False)  # its next observation is open
    assert ("frames0/0" in made.state()) == (request.param == "frames")
    return made


def contents(buffer):
    """Returns every row, and the state that determines all later results."""
    return {**buffer.gather(HELD), **buffer.state()}


def flipped(array, rng):
    """Returns the array with one flipped bit in one of its numbers."""
    wrong = array.copy()
    wrong[rng.integers(len(wrong))] ^= np.array(1 << rng.integers(8), wrong.dtype)
    return wrong


def test_a_restored_buffer_holds_and_draws_the_same():
    for settings in ({}, {"n_envs": 2}):
        rng = np.random.default_rng(0)
        buffer = ReplayBuffer(20, 3, 1, seed=4, **settings)
        ids = np.arange(33) % buffer.n_envs
        push_batch(buffer, episodes(33, rng), env_ids=ids)
        buffer.sample(8)
        state = buffer.state()
        other = ReplayBuffer(20, 3, 1, seed=99, **settings)
        push_batch(other, episodes(5, rng))
        other.restore(state)
        more = episodes(9, rng)
        for each in (buffer, other):
            push_batch(each, more, env_ids=ids[:9])
        for draw in ({}, {"seed": 3}, {"n_step": 3, "gamma": 0.5}):
            left, right = buffer.sample(64, **draw), other.sample(64, **draw)
            for key in left:
                np.testing.assert_array_equal(left[key], right[key])


@pytest.mark.parametrize("settings", [{"capacity": 63}, {"obs_shape": (2, 2)}, {"n_envs": 2}, {"act_dim": 2}])
def test_a_state_of_another_buffer_is_refused_and_changes_nothing(settings):
    buffer = ReplayBuffer(64, act_dim=1, obs_shape=(3, 2))
    buffer.push(np.ones((3, 2)), 0.5, 1.0, False, False)
    other = ReplayBuffer(**{"capacity": 64, "act_dim": 1, "obs_shape": (3, 2), **settings})
    before = other.state()
    with pytest.raises(CheckpointError):
        other.restore(buffer.state())
    np.testing.assert_equal(other.state(), before)


def test_a_state_that_lacks_something_is_refused_and_changes_nothing(buffer):
    state, before = buffer.state(), contents(buffer)
    for key, value in state.items():
        with pytest.raises(CheckpointError):
            buffer.restore({k: v for k, v in state.items() if k != key})
        np.testing.assert_equal(contents(buffer), before)
        with pytest.raises(REFUSED):
            buffer.restore({**state, key: value[:-1] if isinstance(value, np.ndarray) else None})
        np.testing.assert_equal(contents(buffer), before)


def test_refused_damaged_states_change_nothing(buffer):
    state, before = buffer.state(), contents(buffer)
    rng = np.random.default_rng(0)
    refused = 0
    for key in [key for key, value in state.items() if isinstance(value, np.ndarray)] * 20:
        try:
            buffer.restore({**state, key: flipped(state[key], rng)})
        except REFUSED:
            refused += 1
        else:
            buffer.restore(state)
        np.testing.assert_equal(contents(buffer), before)
    assert refused > 60
