"""`metrics.csv`: one line per row, one column per metric."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path

from rlox.disk import append_file, replace_file
from rlox.loggers.base import Row

__all__ = ["CsvSink"]

LINE_END = b"\r\n"


class CsvSink:
    """Writes rows to `path` in order; a metric that appears later adds a column.

    The cell of a missing or null metric is empty. `open` cuts off all lines after the rows that it keeps, so
    no row is there twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] = []
        self._has_header = False  # whether the header line exists

    def open(self, rows: int) -> int:
        """Keep the first `rows` lines after the header; with 0 rows the header is removed, too."""
        self._columns, self._has_header = [], False
        if not self.path.exists():
            return 0
        n_rows = 0
        with self.path.open("rb") as file:
            names = file.readline()
            end = len(names) if rows and names.endswith(LINE_END) else 0
            self._has_header = end > 0
            self._columns = next(csv.reader([names.decode(errors="replace")])) if end else []
            commas = max(len(self._columns) - 1, 0)
            while end and n_rows < rows and (line := file.readline()).endswith(LINE_END):
                if line.count(b",") != commas:
                    break
                end, n_rows = end + len(line), n_rows + 1
        if end < self.path.stat().st_size:
            os.truncate(self.path, end)
        return n_rows

    def write(self, rows: Sequence[Row]) -> None:
        """Append lines; a new column first rewrites the file."""
        names = dict.fromkeys(name for row in rows for name in row)
        if (new := [name for name in names if name not in self._columns]) or not self._has_header:
            self._rewrite_with_columns(self._columns + new)
        text = io.StringIO(newline="")
        csv.DictWriter(text, self._columns).writerows(rows)
        append_file(self.path, text.getvalue().encode())

    def finish(self) -> None:
        """Do nothing: rows are in the file as soon as they are written."""

    def close(self) -> None:
        """Do nothing: no file is held open."""

    def abandon(self) -> None:
        """Do nothing: a file write cannot be cut short."""

    def _rewrite_with_columns(self, columns: list[str]) -> None:
        """Rewrite the file with these columns: the existing ones, followed by new ones."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(columns)
        if self._has_header:
            with self.path.open(newline="", encoding="utf-8") as file:
                lines = csv.reader(file)
                next(lines)
                writer.writerows(line + [""] * (len(columns) - len(line)) for line in lines)
        replace_file(self.path, text.getvalue().encode())
        self._columns, self._has_header = columns, True
