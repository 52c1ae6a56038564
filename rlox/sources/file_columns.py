"""Columns that stay in their file and are read by position, without memory mapping.

Truncating a memory-mapped file kills the process (SIGBUS); a positional read raises an error instead.
"""

from __future__ import annotations

import json
import math
import os
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import DTypeLike, NDArray

from rlox.errors import CheckpointError, ShapeError

__all__ = ["BYTES_PER_READ", "Column", "FileColumn", "first_rows_of", "iter_blocks", "read_file_columns"]

BYTES_PER_READ = 8 << 20  # approximate bytes of one read

# Types of safetensors that NumPy has.
DTYPES = {f"{letter}{8 * size}": f"{letter.lower()}{size}" for letter in "IUF" for size in (1, 2, 4, 8)}
DTYPES["BOOL"] = "bool"


class OpenFile:
    """A file that stays open for reading while an object refers to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)

    def __len__(self) -> int:
        return os.fstat(self._fd).st_size

    def read_into(self, out: Any, offset: int) -> None:
        """Fill `out` from byte `offset` on; `CheckpointError` if the file ends too early."""
        view = memoryview(out).cast("B")
        while len(view):
            n_read = os.preadv(self._fd, [view], offset)
            if not n_read:
                raise CheckpointError(
                    f"{self.path} was cut short: it has {len(self)} bytes, byte {offset} is needed"
                )
            view, offset = view[n_read:], offset + n_read

    def read(self, n: int, offset: int) -> bytearray:
        """Return `n` bytes from `offset` on."""
        data = bytearray(n)
        self.read_into(data, offset)
        return data


class FileColumn:
    """Rows `[n, ...]` of one dtype, stored contiguously in a file.

    Slices and `take` read the rows they need; `np.asarray` reads all.
    """

    def __init__(self, file: OpenFile, offset: int, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        self._file, self._offset = file, offset
        self.dtype, self.shape = np.dtype(dtype), shape
        self._row_bytes = self.dtype.itemsize * math.prod(shape[1:])

    @property
    def ndim(self) -> int:
        """Count of axes, the row axis included."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self._row_bytes * self.shape[0]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        first, last, step = rows.indices(len(self))
        if step != 1:
            raise IndexError(f"{rows}: only contiguous rows can be read, expected a step of 1")
        out = np.empty((max(0, last - first), *self.shape[1:]), self.dtype)
        if out.nbytes:
            self._file.read_into(out.reshape(-1).view(np.uint8), self._offset + first * self._row_bytes)
        return out

    def head(self, n: int) -> FileColumn:
        """Return the first `n` rows as a column of the same file; nothing is read."""
        return FileColumn(self._file, self._offset, self.dtype, (n, *self.shape[1:]))

    def take(self, rows: NDArray[Any], out: NDArray[Any]) -> None:
        """Copy `rows` `[k]` into `out` `[k, ...]`; `ShapeError` unless its size, dtype and layout fit."""
        if out.dtype != self.dtype or not out.flags.c_contiguous or out.nbytes != len(rows) * self._row_bytes:
            raise ShapeError(
                f"out is {out.dtype} of {out.shape}, expected contiguous {self.dtype} for {len(rows)} rows "
                f"of {self.shape[1:]}"
            )
        if not self._row_bytes:
            return
        view = memoryview(out.reshape(-1).view(np.uint8).data)
        starts = range(0, len(view), self._row_bytes)
        for start, row in zip(starts, rows.tolist(), strict=True):
            self._file.read_into(view[start : start + self._row_bytes], self._offset + row * self._row_bytes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:] if dtype is None else self[:].astype(dtype)


Column = NDArray[Any] | FileColumn


def first_rows_of(column: Column, n: int) -> Column:
    """Return the first `n` rows without a copy."""
    return column.head(n) if isinstance(column, FileColumn) else column[:n]


def iter_blocks(*columns: Column, overlap: int = 0) -> Iterator[tuple[slice, tuple[NDArray[Any], ...]]]:
    """Yield blocks of about `BYTES_PER_READ` bytes: the slice of rows, and these rows of each column.

    Each block begins `overlap` rows before the end of the previous one.
    """
    row_bytes = max(1, sum(column.nbytes for column in columns) // max(1, len(columns[0])))
    rows_per_block = max(1, BYTES_PER_READ // row_bytes)
    for first in range(0, len(columns[0]), rows_per_block):
        part = slice(max(0, first - overlap), min(first + rows_per_block, len(columns[0])))
        yield part, tuple(column[part] for column in columns)


def read_file_columns(path: Path) -> Mapping[str, FileColumn]:
    """Return the columns of a safetensors file; `CheckpointError` if it is not one."""
    try:
        with safetensors.safe_open(path, framework="np"):
            pass  # checks that header and offsets fit the file
        file = OpenFile(path)
        header_size = int.from_bytes(file.read(8, 0), "little")
        header: dict[str, Any] = json.loads(file.read(header_size, 8))
        header.pop("__metadata__", None)
        return {name: _column(file, 8 + header_size, entry) for name, entry in header.items()}
    except (OSError, TypeError, ValueError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path} is not a dataset: {error}") from error


def _column(file: OpenFile, begin: int, entry: Mapping[str, Any]) -> FileColumn:
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"it has columns of {entry['dtype']}, expected {', '.join(DTYPES)}")
    offset = begin + entry["data_offsets"][0]
    return FileColumn(file, offset, DTYPES[entry["dtype"]], tuple(entry["shape"]))
