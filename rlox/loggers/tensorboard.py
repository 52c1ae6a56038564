"""TensorBoard event files."""

from __future__ import annotations

import io
import os
import struct
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rlox.disk import append_file
from rlox.loggers.base import Row

__all__ = ["TensorboardSink"]

PREFIX, SUFFIX = "events.out.tfevents.", ".rlox"
HEADER_RECORDS = 3  # records before the first row: format version, session start, hyperparameters
OLD_HEADER_RECORDS = 2  # in earlier versions, without hyperparameters
HPARAMS_TAG_PREFIX = "_hparams_/"
# A record's length and the checksum of that number; the record's bytes and their checksum follow.
RECORD_HEADER = struct.Struct("<QI")
CHECKSUM_SIZE = 4


class TensorboardSink:
    """Writes scalars to one file in `folder`: one event per row, one tag per metric, at the row's `unit`.

    `open` counts the events, so no row is there twice. If rows are removed, a new file replaces the old one.
    The new file begins with a session start at step 0, at which TensorBoard, even a running one, forgets what
    it read before. This mark also hides older files of other writers. An event's time is the file's start
    plus the `seconds` of its row, whenever it was written. The dashboard HPARAMS shows the hyperparameters of
    the run.
    """

    def __init__(self, folder: Path, unit: str, hyperparameters: Mapping[str, Any] | None = None) -> None:
        events = import_module("tensorboard.compat.proto.event_pb2")
        records = import_module("tensorboard.summary.writer.record_writer")
        self.folder = folder
        self._unit = unit
        self._event, self._session = events.Event, events.SessionLog
        self._summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._writer, self._checksum = records.RecordWriter, records.masked_crc32c
        self._hparams = import_module("tensorboard.plugins.hparams.summary_v2").hparams_pb
        self._hyperparameters = {k: _hparam_value(v) for k, v in (hyperparameters or {}).items()}
        self._path = folder
        self._start_time = 0.0  # epoch seconds

    def open(self, rows: int) -> int:
        """Keep the events of the first `rows` rows; return how many there are."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = sorted(self.folder.glob(f"{PREFIX}*{SUFFIX}"))
        ends = self._record_ends(files[-1]) if files else []
        n_header = self._count_header_records(files[-1], ends) if files else HEADER_RECORDS
        n_rows = len(ends) - n_header
        if n_rows < 0 or n_rows > rows:
            content = files[-1].read_bytes()[: ends[n_header + rows - 1]] if n_rows > rows else self._header()
            if n_rows >= 0 or not files:
                files.append(self._new_path())
            files[-1].write_bytes(b"")
            append_file(files[-1], content)
        elif ends[-1] < files[-1].stat().st_size:  # a kill cut an event short
            os.truncate(files[-1], ends[-1])
        self._path = files[-1]
        # old files are only emptied: a TensorBoard that reads one of them then moves to the new one
        for old in files[:-1]:
            if old.stat().st_size:
                os.truncate(old, 0)
        with self._path.open("rb") as file:
            (length, _) = RECORD_HEADER.unpack(file.read(RECORD_HEADER.size))
            self._start_time = self._event.FromString(file.read(length)).wall_time
        return min(max(n_rows, 0), rows)

    def write(self, rows: Sequence[Row]) -> None:
        """Append one event per row."""
        append_file(self._path, self._serialize([self._event_of(row) for row in rows]))

    def finish(self) -> None:
        """Do nothing: rows are in the file as soon as they are written."""

    def close(self) -> None:
        """Do nothing: no file is held open."""

    def abandon(self) -> None:
        """Do nothing: a file write cannot be cut short."""

    def _event_of(self, row: Row) -> Any:
        values = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if value is not None and name != self._unit
        ]
        return self._event(
            wall_time=self._start_time + float(row.get("seconds") or 0.0),
            step=int(row.get(self._unit) or 0),
            summary=self._summary(value=values),
        )

    def _header(self) -> bytes:
        begin = self._session(status=self._session.START)
        now = time.time()
        version = self._event(wall_time=now, file_version="brain.Event:2")
        hyperparameter_summary = self._hparams(self._hyperparameters, self.folder.parent.name, now)
        return self._serialize(
            [
                version,
                self._event(session_log=begin, step=0),
                self._event(wall_time=now, summary=hyperparameter_summary),
            ]
        )

    def _count_header_records(self, path: Path, ends: Sequence[int]) -> int:
        """Count the records of a file before those of its rows."""
        if len(ends) <= OLD_HEADER_RECORDS:
            return HEADER_RECORDS
        with path.open("rb") as file:
            file.seek(ends[OLD_HEADER_RECORDS - 1] + RECORD_HEADER.size)
            third = self._event.FromString(file.read(ends[OLD_HEADER_RECORDS] - file.tell() - CHECKSUM_SIZE))
        tags = [value.tag for value in third.summary.value]
        return (
            HEADER_RECORDS if any(tag.startswith(HPARAMS_TAG_PREFIX) for tag in tags) else OLD_HEADER_RECORDS
        )

    def _new_path(self) -> Path:
        """Return a file name that sorts after all existing ones, as files are read in order of names."""
        timestamps = (path.name.split(".")[3] for path in self.folder.glob(f"{PREFIX}*"))
        now = max([int(time.time()), *(int(name) + 1 for name in timestamps if name.isdigit())])
        return self.folder / f"{PREFIX}{now:010d}{SUFFIX}"

    def _serialize(self, events: list[Any]) -> bytes:
        data = io.BytesIO()
        writer = self._writer(data)
        for event in events:
            writer.write(event.SerializeToString())
        return data.getvalue()

    def _record_ends(self, path: Path) -> list[int]:
        """Return the end offset of each complete record of a file."""
        ends, end, size = [], 0, path.stat().st_size
        with path.open("rb") as file:
            while len(head := file.read(RECORD_HEADER.size)) == RECORD_HEADER.size:
                length, checksum = RECORD_HEADER.unpack(head)
                end += RECORD_HEADER.size + length + CHECKSUM_SIZE
                if end > size or checksum != self._checksum(head[:8]):
                    break
                ends.append(end)
                file.seek(end)
        return ends


def _hparam_value(value: Any) -> bool | float | str:
    """Convert a hyperparameter to a type that the dashboard accepts."""
    if isinstance(value, (bool, int, float)):
        return value
    return "null" if value is None else str(value)
