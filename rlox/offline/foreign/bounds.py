"""What a file may declare before anything is allocated for it."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rlox.errors import CheckpointError
from rlox.sources.file_columns import AT_ONCE

__all__ = ["Damage", "document", "require_column", "rows_at_once"]

ROW = 64 << 20  # bytes of one row at most
TEXT = 64 << 20  # bytes of a document at most
RATIO = 1100  # deflate makes at most 1032 bytes of one
KINDS = "biuf"


class Damage(CheckpointError):
    """A file is not what it says, or says what cannot be."""


def require_column(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], stored: int) -> None:
    """Numbers, rows of a size that can be, and no more of them than `stored` bytes can hold."""
    if dtype.hasobject or dtype.kind not in KINDS or dtype.itemsize > 8:
        raise Damage(f"{name} is {dtype}, expected numbers; pickled objects are not read")
    if not 1 <= len(shape) <= 5 or min(shape) < 0:
        raise Damage(f"{name} has shape {shape}, expected rows of numbers")
    if dtype.itemsize * prod(shape[1:]) > ROW:
        raise Damage(f"{name} has shape {shape}: a row of more than {ROW >> 20} MiB")
    if dtype.itemsize * prod(shape) > RATIO * max(stored, 0):
        raise Damage(
            f"{name} is said to be {dtype.itemsize * prod(shape):,} bytes, of which {stored:,} are there: "
            "more than any compression gives"
        )


def rows_at_once(bytes_of_a_row: int) -> int:
    """How many rows are read in one go."""
    return max(1, AT_ONCE // max(1, bytes_of_a_row))


def document(path: Path) -> dict[str, Any]:
    """The JSON object in a file, which is not read if it is enormous."""
    if path.stat().st_size > TEXT:
        raise Damage(f"{path} has {path.stat().st_size:,} bytes, expected at most {TEXT:,}")
    return parsed(path.read_bytes(), str(path))


def parsed(text: bytes | str, where: str) -> dict[str, Any]:
    """The JSON object that `text` is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damage(f"{where} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Damage(f"{where} is a {type(found).__name__} of JSON, expected an object")
    return found
