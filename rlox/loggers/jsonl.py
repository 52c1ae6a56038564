"""JSON lines: `metrics.jsonl`, the authoritative log of a run, and `episodes.jsonl`."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlox.disk import is_transient, open_file, open_nonblocking
from rlox.errors import StorageError

__all__ = ["METRICS", "JsonLines", "iter_rows", "read_rows"]

log = logging.getLogger("rlox.loggers")

METRICS = "metrics.jsonl"
MAX_PENDING_BYTES = 64 << 20  # most bytes of rows that wait in memory while the disk refuses them
RETRY_SECONDS = 0.2


class JsonLines:
    """Writes one JSON object per line, on disk when `write` returns; non-finite numbers become null.

    While the disk is full or fails, rows wait in memory and are written, in order, as soon as it accepts them
    again. Raises `StorageError` after `timeout` seconds, or if more than 64 MiB wait. `offset` is where a
    resumed run continues: rows written after its checkpoint are cut off.
    """

    def __init__(self, path: Path, offset: int = 0, timeout: float = 0.0) -> None:
        self.path = path
        self.offset = offset  # bytes already in the file
        self._timeout = timeout
        self._pending = bytearray()
        self._refused_at: float | None = None
        try:
            self._file = open(path, "ab", buffering=0, opener=open_nonblocking)  # noqa: SIM115
            size = self._file.tell()
            if size >= offset:
                self._file.truncate(offset)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error}") from error
        if size < offset:
            raise StorageError(
                f"{path} has {size} bytes, but the checkpoint was saved at {offset} bytes; "
                "restore the file or start a new run"
            )

    @property
    def end_offset(self) -> int:
        """The file's size once pending rows are written."""
        return self.offset + len(self._pending)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row."""
        line = json.dumps({k: _finite_or_none(v) for k, v in row.items()}, allow_nan=False)
        self._pending += line.encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Write pending rows; return whether the file has every row."""
        try:
            while self._pending:
                n_written = self._file.write(self._pending)
                self.offset += n_written
                del self._pending[:n_written]
        except OSError as error:
            self._on_refusal(error)
        else:
            self._refused_at = None
        return not self._pending

    def sync(self) -> None:
        """Force the rows to the disk: a checkpoint with an offset beyond the file's end is useless."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error

    def close(self, should_give_up: Callable[[], bool] = lambda: False) -> None:
        """Write pending rows and close the file; `StorageError` after `timeout` or if `should_give_up`."""
        try:
            while not self.flush():
                if should_give_up():
                    raise StorageError(
                        f"cannot write {self.path}: {len(self._pending)} bytes of rows not written"
                    )
                time.sleep(RETRY_SECONDS)
        finally:
            self._file.close()

    def _on_refusal(self, error: OSError) -> None:
        now = time.monotonic()
        if self._refused_at is None:
            self._refused_at = now
            log.warning("%s: %s; rows wait in memory", self.path, error.strerror)
        is_over = now - self._refused_at >= self._timeout or len(self._pending) > MAX_PENDING_BYTES
        if is_over or not is_transient(error):
            raise StorageError(
                f"cannot write {self.path}: {error.strerror}; {len(self._pending)} bytes of rows "
                f"not written after {now - self._refused_at:.0f} s"
            ) from error


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the complete rows of a JSON-lines file so far; none if the file does not exist."""
    return [row for row, _ in iter_rows(path)] if path.exists() else []


def iter_rows(path: Path, offset: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the complete rows from a byte offset on, each with the offset after it.

    Lines that are not a JSON object are skipped, and so is text after the last newline: a row that is being
    written, or that a crash cut short.
    """
    with open_file(path) as file:
        file.seek(offset)
        while (line := file.readline()).endswith(b"\n"):
            offset += len(line)
            if isinstance(row := _parse_line(line), dict):
                yield row, offset


def _parse_line(line: bytes) -> Any:
    """Parse a line of JSON; `None` if it is damaged or too deeply nested to be a row."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _finite_or_none(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
