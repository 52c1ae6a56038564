"""Tests the trajectory for measuring replay buffers, and the comparison before the measurement."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from harness.original import Original
from harness.replay import Trajectory, fill, sample_check, single_transition
from harness.replay_systems import BufferShape, RloxBuffer, RloxPrioritizedBuffer
from memory_buffers import BufferWorkload, fill_in_a_child


def test_a_transition_leads_to_the_observation_of_the_next():
    data = Trajectory.vectors(10, 3, 2)
    rows = data.rows(8, 4)
    np.testing.assert_array_equal(rows.next_obs[:-1], rows.obs[1:])
    np.testing.assert_array_equal(rows.rewards, [8, 9, 10, 11])
    np.testing.assert_array_equal(single_transition(data, 19).next_obs, data.pool[0])


def test_images_are_stacks_that_share_three_frames_with_the_next():
    pool = Trajectory.images(8, "uint8").pool
    np.testing.assert_array_equal(pool[:-1, 1:], pool[1:, :-1])


def test_a_row_that_was_never_pushed_is_counted():
    data = Trajectory.vectors(10, 3, 2)
    rows = data.rows(0, 10)
    assert data.count_wrong(rows.obs, rows.next_obs, rows.rewards) == 0
    assert data.count_wrong(rows.obs[::-1], rows.next_obs, rows.rewards) == 10
    assert data.count_wrong(rows.obs, rows.obs, rows.rewards) == 10


@pytest.mark.parametrize("singly", [True, False])
@pytest.mark.parametrize("make", [RloxBuffer, RloxPrioritizedBuffer])
def test_our_buffers_answer_with_rows_of_the_trajectory(make, singly):
    data = Trajectory.vectors(400, 4, 1)
    replay = make(BufferShape.of(data, 400))
    fill(replay, data, 400, one_by_one=singly)
    got = sample_check(replay, data, 400)()
    assert got["wrong"] == 0 and got["place"] == pytest.approx(0.5, abs=0.03)


def test_the_child_holds_the_same_trajectory():
    data = Trajectory.vectors(400, 4, 1)
    with closing(Original(Path(sys.executable))) as original:
        arrays = [data.pool, data.actions]
        runner = original.runner("replay", arrays, task="push one", capacity=400, size=1)
        got = runner.result()
        assert runner.sample(10) > 0
    assert got["wrong"] == 0 and got["place"] == pytest.approx(0.5, abs=0.03)


def test_memory_of_a_filled_buffer_is_at_least_the_arithmetic_minimum():
    work = BufferWorkload(512, "image uint8")
    assert work.minimum("rlox") == 512 * (28_224 + 4 + 4 + 1)
    assert work.minimum("rlox") <= fill_in_a_child("rlox", work) + 2 * 64 * 28_224
