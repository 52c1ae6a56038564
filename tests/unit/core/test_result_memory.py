"""Tests the memory of results: reused only when no array needs it, bounded, and never the caller's."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from rlox._core import Stream, compute_gae, compute_gae_time_major
from rlox.errors import ShapeError

LARGE = 40_000  # float64 numbers: above the least size of pooled memory


def test_a_result_keeps_its_numbers_while_later_calls_reuse_freed_memory():
    kept = Stream(1, "kept").uniform(LARGE)
    view, expected = kept[100:200], kept[100:200].copy()
    del kept
    for index in range(50):
        Stream(2, "other", index).uniform(LARGE)
    np.testing.assert_array_equal(view, expected)


def test_large_results_reuse_the_memory_of_freed_arrays():
    addresses = set()
    for index in range(50):
        addresses.add(Stream(3, "again", index).uniform(LARGE).ctypes.data)
    assert len(addresses) < 10


def test_results_of_two_calls_never_share_memory():
    results = [Stream(4, "many", index).uniform(LARGE) for index in range(8)]
    assert len({array.ctypes.data for array in results}) == 8
    assert not any(np.shares_memory(a, b) for a, b in itertools.pairwise(results))


def test_threads_that_make_and_drop_results_get_their_own_numbers():
    wrong: list[int] = []

    def work(name: int) -> None:
        expected = Stream(name, "thread").uniform(LARGE)[::1000].copy()
        draws = (Stream(name, "thread").uniform(LARGE)[::1000] for _ in range(200))
        wrong.extend(name for draw in draws if not np.array_equal(draw, expected))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_large_result_is_an_ordinary_writeable_array():
    result = Stream(5, "plain").uniform(LARGE)
    assert result.flags.writeable
    assert result.flags.c_contiguous
    assert result.flags.aligned
    result[:] = 1.0
    assert result.sum() == LARGE


def test_an_output_that_overlaps_an_input_or_another_output_is_refused():
    arrays = [np.zeros((4, 3)) for _ in range(3)]
    flags = np.zeros((4, 3), dtype=bool)
    with pytest.raises(ShapeError, match="returns shares memory with another argument"):
        compute_gae_time_major(*arrays, flags, flags, returns=arrays[1])
    both = np.zeros((4, 3))
    with pytest.raises(ShapeError, match="shares memory"):
        compute_gae_time_major(*arrays, flags, flags, advantages=both, returns=both)
    frozen = np.zeros((4, 3))
    frozen.setflags(write=False)
    with pytest.raises(ShapeError, match="read-only"):
        compute_gae_time_major(*arrays, flags, flags, advantages=frozen)


def test_bools_made_of_other_bytes_than_0_and_1_count_as_set():
    odd = np.array([0, 2, 255, 1], dtype=np.uint8).view(bool)
    rewards = np.ones(4)
    got, _ = compute_gae(rewards, np.zeros(4), odd, 0.0, 0.9, 1.0)
    expected, _ = compute_gae(rewards, np.zeros(4), [False, True, True, True], 0.0, 0.9, 1.0)
    np.testing.assert_array_equal(got, expected)
