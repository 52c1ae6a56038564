"""Named random streams: stable, independent, resumable."""

from __future__ import annotations

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


@pytest.mark.parametrize("draw", ["uniform", "normal"])
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


def test_numpy_integers_are_seeds():
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
def test_numbers_out_of_range_are_named(match, call):
    with pytest.raises(ConfigError, match=match):
        call()


def test_a_name_without_utf_8_is_refused() -> None:
    for make in (Stream, stream_seed):
        with pytest.raises(ConfigError, match=r"name is .*ud800.*, expected Unicode"):
            make(1, "\ud800")
