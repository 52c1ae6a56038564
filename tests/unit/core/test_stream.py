"""Tests that named random streams are stable, independent and resumable."""

from __future__ import annotations

from collections import Counter
from statistics import NormalDist

import numpy as np
import pytest

from rlox._core import Stream, stream_seed
from rlox.errors import ConfigError


def test_the_mapping_from_key_to_draws_never_changes():
    stream = Stream(42, "env", 7)
    assert [stream.next_u64() for _ in range(3)] == [
        0xD3D67643E9593380,
        0xC9040EFEF5420B84,
        0xC6DF859A12727EC0,
    ]
    assert stream_seed(42, "env", 7) == 0xD3D67643E9593380 >> 1
    assert Stream(42, "env", 7).uniform(1)[0] == 0.8274911800193407


def test_normal_numbers_are_box_mullers_cosine_branch_of_the_same_uniforms():
    u, v = Stream(3, "noise").uniform(2_000).reshape(1_000, 2).T
    expected = np.sqrt(-2.0 * np.log(1.0 - u)) * np.cos(2.0 * np.pi * v)
    normal = Stream(3, "noise").normal(1_000)
    np.testing.assert_allclose(normal, expected, rtol=1e-12, atol=1e-12)
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1.0) < 0.1


@pytest.mark.parametrize("draw", ["uniform", "normal", "standard_normal"])
def test_many_draws_in_one_call_equal_many_calls(draw):
    whole, parts = Stream(1, "a"), Stream(1, "a")
    pieces = [getattr(parts, draw)(n) for n in (3, 0, 1, 6)]
    np.testing.assert_array_equal(getattr(whole, draw)(10), np.concatenate(pieces))


def test_a_saved_position_continues_the_draws():
    stream = Stream(9, "replay", 2)
    stream.normal(37)
    position, rest = stream.position, stream.uniform(50)
    assert position == 4 * 37
    resumed = Stream(9, "replay", 2)
    resumed.position = position
    np.testing.assert_array_equal(resumed.uniform(50), rest)


def test_seed_name_and_index_each_give_another_stream():
    keys = [(1, "a", 0), (2, "a", 0), (1, "b", 0), (1, "a", 1)]
    assert len({Stream(*key).next_u64() for key in keys}) == 4
    assert len({stream_seed(*key) for key in keys}) == 4
    assert all(0 <= stream_seed(*key) < 2**63 for key in keys)


def test_stream_seed_accepts_numpy_integers_as_seeds():
    assert stream_seed(np.int64(5), "x", np.uint8(1)) == stream_seed(5, "x", 1)


@pytest.mark.parametrize(
    ("match", "call"),
    [
        ("seed is -1", lambda: Stream(-1, "a")),
        ("seed is None", lambda: Stream(None, "a")),
        ("index is 1.5", lambda: Stream(1, "a", 1.5)),
        ("seed is", lambda: stream_seed(2**64, "a")),
        ("n is -1", lambda: Stream(1, "a").uniform(-1)),
        ("n is", lambda: Stream(1, "a").normal(2**60)),
        ("position is -4", lambda: setattr(Stream(1, "a"), "position", -4)),
    ],
)
def test_random_streams_refuse_seeds_counts_and_positions_out_of_range(match, call):
    with pytest.raises(ConfigError, match=match):
        call()


def test_a_name_without_utf_8_is_refused() -> None:
    for make in (Stream, stream_seed):
        with pytest.raises(ConfigError, match=r"name is .*ud800.*, expected Unicode"):
            make(1, "\ud800")


def test_quick_normal_numbers_are_quantiles_of_the_draws_upper_52_bits():
    draws, quantile = Stream(5, "noise"), NormalDist().inv_cdf
    expected = [quantile(((draws.next_u64() >> 12) * 2 + 1) / 2**53) for _ in range(1_000)]
    found = Stream(5, "noise").standard_normal(1_000)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_a_permutation_has_every_number_once_and_all_orders_are_as_likely():
    assert sorted(Stream(0, "shuffle").permutation(100_000)) == list(range(100_000))
    stream = Stream(1, "shuffle")
    counts = Counter(tuple(stream.permutation(4).tolist()) for _ in range(12_000))
    assert len(counts) == 24
    # chi square of 23 degrees of freedom: above 49.7 once in a thousand
    assert sum((n - 500) ** 2 / 500 for n in counts.values()) < 49.7
    assert Stream(0, "shuffle").permutation(0).shape == (0,)


@pytest.mark.parametrize("shape", [(3, 7), (7, 3), (64, 64), (1, 4), (130, 96)])
def test_an_orthogonal_matrix_has_orthonormal_rows_or_columns(shape):
    stream = Stream(2, "init", 3)
    matrix = stream.orthogonal(*shape)
    assert matrix.shape == shape
    assert stream.position == 2 * shape[0] * shape[1]
    few = matrix if shape[0] <= shape[1] else matrix.T
    np.testing.assert_allclose(few @ few.T, np.eye(len(few)), atol=1e-14)


def test_orthogonal_matrices_are_all_as_likely():
    # The first column of a uniform rotation has a uniform angle, which gives the moments of its cosine.
    stream = Stream(3, "init")
    first = np.stack([stream.orthogonal(2, 2) for _ in range(4_000)])[:, :, 0]
    assert np.abs(first.mean(0)).max() < 5 * np.sqrt(0.5 / 4_000)
    assert np.abs((first**2).mean(0) - 0.5).max() < 5 * np.sqrt(0.125 / 4_000)
    determinants = [np.linalg.det(stream.orthogonal(3, 3)) for _ in range(1_000)]
    assert abs(np.mean(np.sign(determinants))) < 5 / np.sqrt(1_000)


def test_more_numbers_than_a_call_may_draw_are_refused():
    with pytest.raises(ConfigError, match=r"rows \* columns is 4294967296, expected at most"):
        Stream(0, "init").orthogonal(2**16, 2**16)
    with pytest.raises(ConfigError, match="n is 268435457, expected at most 268435456"):
        Stream(0, "shuffle").permutation(2**28 + 1)
