"""Models sequence packing: tries every row in turn."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

from helpers.callables.engine import (
    Arguments,
    Case,
    Draw,
    Invalid,
    RaggedArrays,
    as_array,
    as_integer,
    integers,
    require,
)
from rlox import _core

LARGEST = 2**64 - 1
Place = tuple[int, int, int]


def places(lengths: list[int], max_len: int) -> list[Place]:
    """Return (row, column, sequence) of each sequence, row by row."""
    require(all(1 <= length <= max_len for length in lengths))
    filled: list[int] = []
    placements = []
    for sequence in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        length = lengths[sequence]
        row = next((r for r, used in enumerate(filled) if used + length <= max_len), len(filled))
        if row == len(filled):
            filled.append(0)
        placements.append((row, filled[row], sequence))
        filled[row] += length
    require(len(filled) * max_len < 2**31)
    return sorted(placements)


def describe(placements: list[Place], lengths: list[int], max_len: int) -> tuple[np.ndarray, ...]:
    shape = 1 + max((row for row, _, _ in placements), default=-1), max_len
    packed, positions = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
    for row, column, sequence in placements:
        cells = slice(column, column + lengths[sequence])
        packed[row, cells] = sequence
        positions[row, cells] = np.arange(lengths[sequence])
    return packed, packed >= 0, positions


def longest(value: Any) -> int:
    """Return a row's length; refuse a length that no array can have."""
    return as_integer(value, 1, 2**31 - 1)


def pack_sequences(lengths: Any = None, max_len: Any = None) -> tuple[np.ndarray, ...]:
    numbers, size = integers(lengths, None).tolist(), longest(max_len)
    return describe(places(numbers, size), numbers, size)


def pack_tokens(sequences: Any = None, max_len: Any = None, pad_token_id: Any = 0) -> dict[str, np.ndarray]:
    require(isinstance(sequences, Iterable))
    try:
        items = list(copy.copy(sequences))  # copied, so the call can still use an iterator
    except TypeError as error:
        raise Invalid from error
    tokens = [integers(item, None) for item in items]
    size, pad = longest(max_len), as_integer(pad_token_id, -(2**63), 2**63 - 1)
    lengths = [len(item) for item in tokens]
    placements = places(lengths, size)
    packed, masks, positions = describe(placements, lengths, size)
    laid = np.full(packed.shape, pad, np.int64)
    for row, column, sequence in placements:
        laid[row, column : column + lengths[sequence]] = tokens[sequence]
    order = np.array([sequence for _, _, sequence in placements], np.int64)
    ends = np.cumsum([0] + [lengths[sequence] for sequence in order])
    return {
        "tokens": laid,
        "packed": packed,
        "masks": masks,
        "positions": positions,
        "cu_seqlens": ends.astype(np.int32),
        "order": order,
    }


def unpack_sequences(values: Any = None, packed: Any = None) -> list[np.ndarray]:
    array, rows = as_array(values), integers(packed, None, None)
    require(array.shape[:2] == rows.shape)
    spans: dict[int, tuple[int, int, int]] = {}
    for row, column in np.argwhere(rows >= 0):
        sequence = int(rows[row, column])
        if column > 0 and rows[row, column - 1] == sequence:
            spans[sequence] = (*spans[sequence][:2], int(column) + 1)
        else:
            require(sequence not in spans)
            spans[sequence] = (int(row), int(column), int(column) + 1)
    require(sorted(spans) == list(range(len(spans))))
    pieces = [spans[sequence] for sequence in range(len(spans))]
    return [array[row, start:end] for row, start, end in pieces]


def draw_lengths(draw: Draw) -> Arguments:
    size = draw.integer(1, 12)
    lengths = draw.rng.integers(1, size + 1, draw.integer(0, 12))
    return {"lengths": draw.layout(lengths, keep_dtype=True), "max_len": size}


def draw_tokens(draw: Draw) -> Arguments:
    size = draw.integer(1, 12)
    lengths = draw.rng.integers(1, size + 1, draw.integer(0, 6))
    kind = draw.one_of(np.int64, np.int32, np.uint16, np.uint64)
    sequences = RaggedArrays(
        draw.layout(draw.rng.integers(0, 50_000, length).astype(kind), keep_dtype=True) for length in lengths
    )
    pad = {"pad_token_id": draw.integer(-(2**63), 2**63 - 1)} if draw.boolean() else {}
    return {"sequences": sequences, "max_len": size, **pad}


def draw_packed(draw: Draw) -> Arguments:
    lengths = draw_lengths(draw)
    numbers, size = np.asarray(lengths["lengths"], np.int64).tolist(), lengths["max_len"]
    packed = describe(places(numbers, size), numbers, size)[0]
    if not numbers:
        packed = packed.reshape(0, size)
    values = draw.rng.normal(size=(*packed.shape, *draw.one_of((), (2,))))
    keep = {"values": values, "packed": packed}
    if numbers:
        keep = {name: draw.layout(array, keep_dtype=True) for name, array in keep.items()}
    return keep


CASES = {
    "pack_sequences": Case(_core.pack_sequences, draw_lengths, pack_sequences),
    "pack_tokens": Case(_core.pack_tokens, draw_tokens, pack_tokens),
    "unpack_sequences": Case(_core.unpack_sequences, draw_packed, unpack_sequences),
}
