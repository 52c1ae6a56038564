"""Tests that a space is refused by name if an integer cannot hold its choices or a row its width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlox.envs.actions import ActionCodec
from rlox.envs.parts_codec import codec_of
from rlox.errors import UnsupportedSpaceError

MAX_INT64 = 2**63 - 1
EACH_CODEC = pytest.mark.parametrize(
    ("make_codec", "kind"), [(codec_of, "observation"), (ActionCodec.of, "action")]
)


@EACH_CODEC
@pytest.mark.parametrize(
    ("space", "last", "most"),
    [
        (lambda: spaces.Discrete(5, start=MAX_INT64 - 2), MAX_INT64 + 2, MAX_INT64),
        (lambda: spaces.Discrete(5, start=2**31 - 2, dtype=np.int32), 2**31 + 2, 2**31 - 1),
        (lambda: spaces.MultiDiscrete([2, 5], start=[0, MAX_INT64 - 2]), MAX_INT64 + 2, MAX_INT64),
        (
            lambda: spaces.MultiDiscrete(np.array([2**63 + 5], np.uint64), np.uint64),
            2**63 + 4,
            MAX_INT64,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered")  # in Gymnasium
def test_choices_beyond_the_range_of_their_dtype_are_refused(
    make_codec: Any, kind: str, space: Any, last: int, most: int
) -> None:
    told = rf"^mine has {kind} space .*, whose last choice is {last:,}, expected at most {most:,}"
    with pytest.raises(UnsupportedSpaceError, match=told):
        make_codec(space(), "mine")
    part = spaces.Dict(a=space(), b=spaces.Discrete(2))
    with pytest.raises(UnsupportedSpaceError, match=rf"^mine.* has {kind} space .*, whose last choice"):
        make_codec(part, "mine")


@pytest.mark.parametrize(
    "space",
    [spaces.Discrete(5, start=MAX_INT64 - 4), spaces.Discrete(5, start=2**31 - 5, dtype=np.int32)],
)
def test_the_greatest_number_of_a_dtype_is_a_choice(space: spaces.Discrete[Any]) -> None:
    last = int(space.start) + 4
    assert codec_of(space).encode_one(last)[0].tolist() == [0, 0, 0, 0, 1]
    assert ActionCodec.of(space).to_env(np.array([4])).tolist() == [last]


@EACH_CODEC
def test_more_bits_than_a_row_can_hold_are_refused(make_codec: Any, kind: str) -> None:
    told = rf"^mine has {kind} space MultiBinary.*, which takes 1,099,511,627,776 numbers a row"
    with pytest.raises(UnsupportedSpaceError, match=told):
        make_codec(spaces.MultiBinary(2**40), "mine")
