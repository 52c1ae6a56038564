"""`metrics.jsonl`, `episodes.jsonl` and `metrics.csv`."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rlox.errors import StorageError
from rlox.loggers.base import Row

__all__ = ["CsvSink", "JsonLines", "read_rows"]


class JsonLines:
    """One JSON object a line, flushed at every write; non-finite numbers become null."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("ab")
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error}") from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row."""
        line = json.dumps({k: _finite(v) for k, v in row.items()}, allow_nan=False)
        try:
            self._file.write(line.encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error

    @property
    def offset(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class CsvSink:
    """`metrics.csv`; a metric that first shows later adds a column, and the file is rewritten.

    `earlier` are the rows from before a run was resumed.
    """

    def __init__(self, path: Path, earlier: Iterable[Row] = ()) -> None:
        self.path = path
        self._rows: list[Row] = list(earlier)
        self._columns = list(dict.fromkeys(name for row in self._rows for name in row))
        self._begun = False

    def write(self, row: Row) -> None:
        """Append a row."""
        self._rows.append(row)
        new = [name for name in row if name not in self._columns]
        self._columns += new
        whole = bool(new) or not self._begun
        self._begun = True
        with self.path.open("w" if whole else "a", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            if whole:
                writer.writeheader()
            writer.writerows(self._rows if whole else [row])

    def close(self) -> None:
        """Nothing is held back."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file so far; a line cut short by a crash is left out."""
    rows: list[dict[str, Any]] = []
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
