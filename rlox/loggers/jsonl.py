"""JSON lines: `metrics.jsonl`, which is the truth about a run, and `episodes.jsonl`."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlox.disk import may_pass, open_at_once, open_file
from rlox.errors import StorageError

__all__ = ["METRICS", "JsonLines", "read_rows", "rows_from"]

log = logging.getLogger("rlox.loggers")

METRICS = "metrics.jsonl"
MAX_WAITING = 64 << 20  # bytes of rows kept in memory while the disk refuses
RETRY_SECONDS = 0.2


class JsonLines:
    """One JSON object a line, on disk when `write` returns; non-finite numbers become null.

    While the disk is full or fails, rows wait in memory and are written, in order, as soon as it takes
    them again; `StorageError` comes after `timeout` seconds or 64 MiB. `offset` is where
    a resumed run goes on: rows written after its checkpoint are cut off.
    """

    def __init__(self, path: Path, offset: int = 0, timeout: float = 0.0) -> None:
        self.path = path
        self.offset = offset  # bytes that are safely in the file
        self._timeout = timeout
        self._waiting = bytearray()
        self._refused_at: float | None = None
        try:
            self._file = open(path, "ab", buffering=0, opener=open_at_once)  # noqa: SIM115
            size = self._file.tell()
            if size >= offset:
                self._file.truncate(offset)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error}") from error
        if size < offset:
            raise StorageError(
                f"{path} has {size} bytes, the checkpoint was saved at {offset}; "
                "restore the file or start a new run"
            )

    @property
    def end(self) -> int:
        """Bytes of the file once it has the rows that wait."""
        return self.offset + len(self._waiting)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row."""
        line = json.dumps({k: _finite(v) for k, v in row.items()}, allow_nan=False)
        self._waiting += line.encode() + b"\n"
        self.flush()

    def flush(self) -> bool:
        """Write what waits; whether the file now has every row."""
        try:
            while self._waiting:
                written = self._file.write(self._waiting)
                self.offset += written
                del self._waiting[:written]
        except OSError as error:
            self._refused(error)
        else:
            self._refused_at = None
        return not self._waiting

    def sync(self) -> None:
        """Force the rows to the device: a checkpoint whose offsets lie beyond the file is useless."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error}") from error

    def close(self, hurried: Callable[[], bool] = lambda: False) -> None:
        """Write what waits, for as long as `timeout` allows and nobody is in a hurry, and close the file."""
        try:
            while not self.flush():
                if hurried():
                    raise StorageError(
                        f"cannot write {self.path}: {len(self._waiting)} bytes of rows not written"
                    )
                time.sleep(RETRY_SECONDS)
        finally:
            self._file.close()

    def _refused(self, error: OSError) -> None:
        now = time.monotonic()
        if self._refused_at is None:
            self._refused_at = now
            log.warning("%s: %s; rows wait in memory", self.path, error.strerror)
        over = now - self._refused_at >= self._timeout or len(self._waiting) > MAX_WAITING
        if over or not may_pass(error):
            raise StorageError(
                f"cannot write {self.path}: {error.strerror}; {len(self._waiting)} bytes of rows "
                f"not written after {now - self._refused_at:.0f} s"
            ) from error


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The whole rows of a JSON-lines file so far; none where there is no file."""
    return [row for row, _ in rows_from(path)] if path.exists() else []


def rows_from(path: Path, offset: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """The whole rows from a byte offset on, each with the offset behind it.

    Lines that are no object of JSON are passed over. What follows the last newline is a row that is being
    written, or that a crash cut short.
    """
    with open_file(path) as file:
        file.seek(offset)
        while (line := file.readline()).endswith(b"\n"):
            offset += len(line)
            if isinstance(row := _parsed(line), dict):
                yield row, offset


def _parsed(line: bytes) -> Any:
    """What JSON a line is; `None` for one that is damaged, or nested too deeply to be a row."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
