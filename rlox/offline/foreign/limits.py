"""Limits on the sizes that a file declares, checked before any allocation."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from rlox.errors import CheckpointError
from rlox.sources.file_columns import BYTES_PER_READ

__all__ = ["DamagedFileError", "read_json", "require_column", "rows_at_once"]

MAX_ROW_BYTES = 64 << 20  # maximum bytes of one row
MAX_TEXT_BYTES = 64 << 20  # maximum bytes of a document
MAX_COMPRESSION = 1100  # deflate expands one byte to at most 1032
NUMBER_KINDS = "biuf"


class DamagedFileError(CheckpointError):
    """A file is damaged, or declares impossible contents."""


def require_column(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], stored_bytes: int) -> None:
    """Raise `DamagedFileError` unless a column is numeric and its size fits `stored_bytes`."""
    if dtype.hasobject or dtype.kind not in NUMBER_KINDS or dtype.itemsize > 8:
        raise DamagedFileError(f"{name} is {dtype}, expected numbers; pickled objects are not read")
    if not 1 <= len(shape) <= 5 or min(shape) < 0:
        raise DamagedFileError(f"{name} has shape {shape}, expected rows of numbers")
    if dtype.itemsize * prod(shape[1:]) > MAX_ROW_BYTES:
        raise DamagedFileError(f"{name} has shape {shape}: a row of more than {MAX_ROW_BYTES >> 20} MiB")
    if dtype.itemsize * prod(shape) > MAX_COMPRESSION * max(stored_bytes, 0):
        raise DamagedFileError(
            f"{name} declares {dtype.itemsize * prod(shape):,} bytes, and {stored_bytes:,} are stored: "
            "more than "
            "any compression gives"
        )


def rows_at_once(bytes_of_a_row: int) -> int:
    """Return the number of rows to read in one call."""
    return max(1, BYTES_PER_READ // max(1, bytes_of_a_row))


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file of at most `MAX_TEXT_BYTES`."""
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise DamagedFileError(
            f"{path} has {path.stat().st_size:,} bytes, expected at most {MAX_TEXT_BYTES:,}"
        )
    return parse_json(path.read_bytes(), str(path))


def parse_json(text: bytes | str, source_name: str) -> dict[str, Any]:
    """Parse `text` as a JSON object; raise `DamagedFileError` if it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(f"{source_name} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DamagedFileError(f"{source_name} is a {type(value).__name__} of JSON, expected an object")
    return value
