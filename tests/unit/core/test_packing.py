"""Tests packing against first fit by hand, round trips, and preference pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlox import _core as core
from rlox.errors import ConfigError, ShapeError

RNG = np.random.default_rng(0)


def first_fit_decreasing(lengths, max_len):
    """Returns rows of sequence indices; tries every row in turn."""
    rows: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        room = (r for r in rows if sum(lengths[j] for j in r) + lengths[i] <= max_len)
        row = next(room, None)
        if row is None:
            rows.append(row := [])
        row.append(i)
    return rows


def by_hand(lengths, max_len):
    """Returns (packed, masks, positions) of first fit by hand."""
    rows = first_fit_decreasing(lengths, max_len)
    packed = np.full((len(rows), max_len), -1)
    positions = np.zeros((len(rows), max_len), int)
    for row, (names, places) in zip(rows, zip(packed, positions, strict=True), strict=True):
        indices = [i for i in row for _ in range(lengths[i])]
        names[: len(indices)] = indices
        places[: len(indices)] = [k for i in row for k in range(lengths[i])]
    return packed, packed >= 0, positions


@pytest.mark.parametrize("n", [0, 1, 2, 7, 50, 300])
def test_packing_is_first_fit_decreasing_and_stable(n):
    lengths = RNG.integers(1, 33, n)
    got = core.pack_sequences(lengths, 32)
    for array, expected in zip(got, by_hand(lengths.tolist(), 32), strict=True):
        np.testing.assert_array_equal(array, expected)
        assert array.shape == (len(got[0]), 32)
    assert [array.dtype for array in got] == [np.int64, np.bool_, np.int64]


def test_packing_places_four_sequences_as_computed_by_hand():
    packed, masks, positions = core.pack_sequences([3, 5, 1, 2], 6)
    np.testing.assert_array_equal(packed, [[1, 1, 1, 1, 1, 2], [0, 0, 0, 3, 3, -1]])
    np.testing.assert_array_equal(masks, [[True] * 6, [True] * 5 + [False]])
    np.testing.assert_array_equal(positions, [[0, 1, 2, 3, 4, 0], [0, 1, 2, 0, 1, 0]])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_packing_accepts_lengths_of_any_integer_dtype_or_list(dtype):
    lengths = RNG.integers(1, 9, 20)
    plain = core.pack_sequences(lengths, 8)
    for other in (lengths.astype(dtype), lengths.tolist(), torch.tensor(lengths)):
        for array, expected in zip(core.pack_sequences(other, 8), plain, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_a_hundred_thousand_sequences_that_share_no_row_are_packed():
    # trying every row in turn would take five billion comparisons
    lengths = RNG.integers(9, 17, 100_000)
    packed, masks, _ = core.pack_sequences(lengths, 16)
    assert len(packed) == len(lengths)
    np.testing.assert_array_equal(packed[:, 0], np.argsort(-lengths, kind="stable"))
    np.testing.assert_array_equal(masks.sum(axis=1), -np.sort(-lengths))


def tokens_of(lengths):
    return [RNG.integers(0, 50_000, n) for n in lengths]


def test_tokens_come_back_as_they_were_packed():
    sequences = tokens_of(RNG.integers(1, 65, 200))
    result = core.pack_tokens(sequences, 64, pad_token_id=-100)
    assert (result["tokens"][~result["masks"]] == -100).all()
    back = core.unpack_sequences(result["tokens"], result["packed"])
    assert len(back) == 200
    for got, expected in zip(back, sequences, strict=True):
        np.testing.assert_array_equal(got, expected)
    described = core.pack_sequences([len(tokens) for tokens in sequences], 64)
    for key, expected in zip(("packed", "masks", "positions"), described, strict=True):
        np.testing.assert_array_equal(result[key], expected)


def test_cumulative_lengths_cut_the_rows_without_padding_into_sequences():
    sequences = tokens_of([3, 5, 1, 2, 6])
    result = core.pack_tokens(sequences, 6)
    stream, bounds = result["tokens"][result["masks"]], result["cu_seqlens"]
    assert bounds.dtype == np.int32
    assert bounds[-1] == len(stream) == 17
    for i, sequence in enumerate(result["order"]):
        np.testing.assert_array_equal(stream[bounds[i] : bounds[i + 1]], sequences[sequence])


def test_gradients_flow_through_unpacked_tensors():
    packed, masks, _ = core.pack_sequences([2, 3], 4)
    values = torch.arange(16.0).reshape(2, 4, 2).requires_grad_()
    back = core.unpack_sequences(values, packed)
    assert [tuple(piece.shape) for piece in back] == [(2, 2), (3, 2)]
    sum(piece.sum() for piece in back).backward()
    np.testing.assert_array_equal(values.grad[:, :, 0], masks)


def test_token_arrays_may_be_lists_tensors_and_of_any_integer_dtype():
    sequences = [[1, 2], torch.tensor([3]), np.array([4, 5, 6], np.uint16)[::-1]]
    result = core.pack_tokens(sequences, 6)
    np.testing.assert_array_equal(result["tokens"], [[6, 5, 4, 1, 2, 3]])
    assert core.pack_tokens([], 4)["tokens"].shape == (0, 4)


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ConfigError, "9 at index 1", lambda: core.pack_sequences([1, 9], 8)),
        (ConfigError, "0 at index 2", lambda: core.pack_sequences([1, 2, 0], 8)),
        (ConfigError, "-1 at index 0", lambda: core.pack_sequences([-1], 8)),
        (ConfigError, "max_len is 0", lambda: core.pack_sequences([1], 0)),
        (ConfigError, "max_len is -1", lambda: core.pack_sequences([1], -1)),
        (ConfigError, "2\\*\\*63", lambda: core.pack_sequences(np.array([2**63], np.uint64), 8)),
        (ShapeError, "integers", lambda: core.pack_sequences([1.5], 8)),
        (ShapeError, r"expected \(n\)", lambda: core.pack_sequences([[1]], 8)),
        (ConfigError, "length is 0 at index 1", lambda: core.pack_tokens([[1], []], 8)),
        (ConfigError, "length is 3 at index 0", lambda: core.pack_tokens([[1, 2, 3]], 2)),
        (ShapeError, r"sequences\[1\]", lambda: core.pack_tokens([[1], [0.5]], 8)),
        (ShapeError, r"sequences\[0\]", lambda: core.pack_tokens([[[1]]], 8)),
        (ConfigError, "less than 2", lambda: core.pack_sequences([1], 2**60)),
        (ConfigError, "less than 2", lambda: core.pack_sequences([], 2**63)),
        (ConfigError, "pad_token_id is", lambda: core.pack_tokens([[1]], 2, pad_token_id=2**63)),
        (
            ShapeError,
            "shape of packed",
            lambda: core.unpack_sequences(np.zeros((2, 3)), np.zeros((3, 2), int)),
        ),
        (ConfigError, "piece", lambda: core.unpack_sequences([[1, 2, 3]], [[0, 1, 0]])),
        (ConfigError, "sequence 0", lambda: core.unpack_sequences([[1]], [[1]])),
    ],
)
def test_packing_refuses_invalid_lengths_and_shapes_by_name(error, match, call):
    with pytest.raises(error, match=match):
        call()


def pair():
    return core.DPOPair(
        prompt_tokens=np.array([1, 2, 3], np.uint32),
        chosen_tokens=[4, 5, 6, 7],
        rejected_tokens=torch.tensor([8, 2**32 - 1]),
    )


def test_a_pair_tells_lengths_and_tokens():
    p = pair()
    assert (p.prompt_len(), p.chosen_len(), p.rejected_len()) == (3, 4, 2)
    for array, expected in (
        (p.prompt_tokens, [1, 2, 3]),
        (p.chosen_tokens, [4, 5, 6, 7]),
        (p.rejected_tokens, [8, 2**32 - 1]),
        (p.chosen_ids(), [1, 2, 3, 4, 5, 6, 7]),
        (p.rejected_ids(), [1, 2, 3, 8, 2**32 - 1]),
    ):
        assert array.dtype == np.uint32
        np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(p.chosen_ids()[p.chosen_mask()], p.chosen_tokens)
    np.testing.assert_array_equal(p.rejected_ids()[p.rejected_mask()], p.rejected_tokens)
    assert repr(p) == "DPOPair(prompt_len=3, chosen_len=4, rejected_len=2)"


def test_preference_pairs_compare_by_value_and_are_immutable():
    p = pair()
    assert p == pair()
    assert hash(p) == hash(pair())
    assert p != core.DPOPair([1, 2, 3], [4, 5, 6, 7], [8])
    assert p != "pair"
    p.prompt_tokens[0] = 9
    assert p == pair()
    assert core.DPOPair([], [1], [2]).prompt_tokens.shape == (0,)


@pytest.mark.parametrize(
    ("error", "match", "tokens"),
    [
        (ShapeError, "chosen_tokens has no tokens", ([1], [], [2])),
        (ShapeError, "rejected_tokens has no tokens", ([1], [2], [])),
        (ConfigError, "prompt_tokens is -1 at index 1", ([1, -1], [2], [3])),
        (ConfigError, "chosen_tokens is 4294967296 at index 0", ([1], [2**32], [3])),
        (ShapeError, "integers", ([1], [2.5], [3])),
        (ShapeError, r"expected \(T\)", ([1], [[2]], [3])),
    ],
)
def test_a_preference_pair_refuses_empty_and_invalid_tokens_by_name(error, match, tokens):
    with pytest.raises(error, match=match):
        core.DPOPair(*tokens)
