"""Tests the sampling rules of `ReplayBuffer`: how often they draw each row, against their definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rlox import ReplayBuffer
from rlox.errors import UnknownNameError

LENGTHS = ((1, 30, 2), (7, 3))


def filled(capacity: int, **settings: object) -> ReplayBuffer:
    """Makes a buffer of two environments with episodes of `LENGTHS`; the last one of each still runs."""
    buffer = ReplayBuffer(capacity, 1, 1, n_envs=2, seed=3, **settings)
    for env, lengths in enumerate(LENGTHS):
        for number, length in enumerate(lengths):
            ends = np.zeros(length, bool)
            ends[-1] = number < len(lengths) - 1
            obs = np.zeros((length, 1))
            ids = np.full(length, env)
            buffer.push_batch(obs, obs, ends, ends, ~ends & False, obs, env_ids=ids)
    return buffer


def episodes(capacity: int) -> list[list[int]]:
    """Returns the indices of each episode's rows in the buffer."""
    found = []
    for env, lengths in enumerate(LENGTHS):
        ends = np.cumsum((0, *lengths))
        rows = range(max(ends[-1] - capacity // 2, 0), ends[-1])
        for begin, end in pairwise(ends):
            found.append([t * 2 + env for t in rows if begin <= t < end])
    return [rows for rows in found if rows]


@pytest.mark.parametrize("capacity", [100, 20])
def test_an_episode_balanced_draw_takes_each_episode_alike_and_each_of_its_rows(capacity):
    buffer, held = filled(capacity, sampler="episode_balanced"), episodes(capacity)
    draws = 60_000
    drawn = buffer.sample(draws)["indices"].astype(int)
    counts = np.bincount(drawn, minlength=2 * 40)
    expected = np.zeros(2 * 40)
    for rows in held:
        expected[rows] = draws / len(held) / len(rows)
    assert (counts[expected == 0] == 0).all()
    seen = expected > 0
    chi_square = ((counts - expected)[seen] ** 2 / expected[seen]).sum()
    # 6 standard deviations above the mean of the distribution
    freedom = seen.sum() - 1
    assert chi_square < freedom + 6 * np.sqrt(2 * freedom)
    uniform = np.bincount(filled(capacity).sample(draws)["indices"].astype(int), minlength=80)
    assert ((uniform - expected)[seen] ** 2 / expected[seen]).sum() > 1_000


def test_a_draw_depends_on_the_seed_and_the_rows_alone():
    one, other = (filled(100, sampler="episode_balanced") for _ in range(2))
    for draw in ({"seed": 5}, {}, {"n_step": 3, "gamma": 0.9}):
        left, right = one.sample(64, **draw), other.sample(64, **draw)
        for key, array in left.items():
            np.testing.assert_array_equal(array, right[key])


def test_a_rule_that_does_not_exist_is_named_with_the_nearest():
    with pytest.raises(UnknownNameError, match="uniform"):
        ReplayBuffer(8, 1, 1, sampler="uniformly")
