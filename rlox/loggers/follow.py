"""Followers: each logger follows `metrics.jsonl` from a stored position, in its own thread."""

from __future__ import annotations

import json
import logging
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from weakref import WeakValueDictionary

from rlox.disk import replace_file
from rlox.errors import StorageError
from rlox.loggers.base import Sink
from rlox.loggers.jsonl import METRICS, iter_rows

__all__ = ["Delivery", "Follower", "Position", "finish"]

log = logging.getLogger("rlox.loggers")

MAX_BATCH = 256  # most rows in one write
PAUSE_SECONDS = 1.0  # seconds between checks of the file
RETRY_SECONDS = 0.2  # seconds to wait after a failure; doubled after each further failure
MAX_RETRY_SECONDS = 30.0
START_SECONDS = 30.0  # a sink that starts slowly gets at least this many seconds at the end of a run

# The last thread of each position file. A new thread waits for it, because an abandoned thread may still be
# in a write.
_threads: WeakValueDictionary[Path, threading.Thread] = WeakValueDictionary()


@dataclass(frozen=True)
class Position:
    """How much of `metrics.jsonl` a logger has: whole rows, and their bytes."""

    offset: int = 0
    rows: int = 0


@dataclass(frozen=True)
class Delivery:
    """What a logger received by the end of a run: rows sent, rows missing, and the error, if any."""

    n_sent: int
    n_missing: int
    error: Exception | None

    @property
    def complete(self) -> bool:
        """Whether nothing is missing and nothing failed."""
        return not self.n_missing and self.error is None

    def __str__(self) -> str:
        # every row was sent, but the destination may not have stored them
        if not self.n_missing and self.error is not None:
            return f"is not known to have every row: {self.error}"
        state_text = f"lacks {self.n_missing} rows" if self.n_missing else "has every row"
        return f"{state_text}: {self.error or 'it did not take them in time'}"


class Follower:
    """Passes the rows of a folder's `metrics.jsonl` to a sink, in order.

    The position after the last row that the sink has is stored in `loggers/<name>.json`. After a failure it
    retries, with growing pauses, and catches up; neither failures nor a slow sink delay the writer of the
    rows. If the process is killed after a write and before the position is stored, `Sink.open` repairs the
    difference. `starts_slowly`: the sink takes seconds to start, but needs no other machine, so at the end of
    a run it is worth waiting for it.
    """

    def __init__(self, name: str, sink: Sink, run_dir: Path, starts_slowly: bool = False) -> None:
        self.name = name
        self.starts_slowly = starts_slowly
        self._sink = sink
        self._metrics_path = run_dir / METRICS
        self._position_path = run_dir / "loggers" / f"{name}.json"
        self._position = self._stored_position = _read_position(self._position_path)
        self._n_sent = 0
        self._error: Exception | None = None
        self._end_event = threading.Event()
        self._is_abandoned = False
        self._previous_thread: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name=f"rlox-{name}", daemon=True)

    def rewind(self, offset: int) -> None:
        """Move the position back to `offset`, at which `metrics.jsonl` will be cut.

        `Sink.open` then removes later rows from the sink.
        """
        if self._position.offset > offset:
            self._position = _position_at(self._metrics_path, offset=offset)
            self._store()

    def start(self) -> None:
        """Follow the file until `end`, after any earlier follower of the same sink in this process."""
        key = self._position_path.resolve()
        self._previous_thread = _threads.get(key)
        _threads[key] = self._thread
        self._thread.start()

    def end(self) -> None:
        """Say that no more rows will come, so that the thread sends the remaining rows now."""
        self._end_event.set()

    def wait(self, timeout: float) -> Delivery:
        """Wait at most `timeout` seconds for the thread to end; return what the logger received.

        Rows that were not sent by then are missing until `rlox sync` sends them.
        """
        self._thread.join(max(timeout, 0.0))
        self._is_abandoned = self._thread.is_alive()
        n_missing = sum(1 for _ in iter_rows(self._metrics_path, self._position.offset))
        error = self._error
        if self._is_abandoned:
            self._sink.abandon()
            if not n_missing and error is None:
                error = TimeoutError("it did not confirm its end in time")
        return Delivery(self._n_sent, n_missing, error)

    def _run(self) -> None:
        is_open, retry = False, RETRY_SECONDS
        while self._previous_thread and self._previous_thread.is_alive() and not self._is_abandoned:
            self._previous_thread.join(RETRY_SECONDS)
        while not self._is_abandoned:
            is_ended = self._end_event.is_set()  # read first: if it is set, the file has every row
            start_time = time.monotonic()
            try:
                is_open = is_open or self._open()
                sent = self._send()
                if is_ended and not sent:
                    self._sink.finish()
            except Exception as error:  # a third-party sink may raise anything; training continues
                is_open = False
                self._on_failure(error)
                if is_ended:
                    time.sleep(RETRY_SECONDS)
                self._end_event.wait(retry)
                retry = min(2 * retry, MAX_RETRY_SECONDS)
            else:
                self._error, retry = None, RETRY_SECONDS
                if is_ended and not sent:
                    break
                # after a full batch, wait as long as it took: a backlog takes at most half of a thread's time
                self._end_event.wait(time.monotonic() - start_time if sent == MAX_BATCH else PAUSE_SECONDS)
        self._close()

    def _open(self) -> bool:
        """Open the sink at the stored position, or move the position back to the rows that the sink has."""
        position = self._position
        if not _is_row_end(self._metrics_path, position.offset):  # the file was edited
            position = _position_at(self._metrics_path, offset=position.offset)
        n_rows = self._sink.open(position.rows)
        if n_rows < position.rows:
            position = _position_at(self._metrics_path, rows=n_rows)
        self._position = position
        return True

    def _send(self) -> int:
        """Send the next rows; return their number."""
        next_rows = list(islice(iter_rows(self._metrics_path, self._position.offset), MAX_BATCH))
        if next_rows:
            self._sink.write([row for row, _ in next_rows])
            if self._is_abandoned:
                return 0
            self._position = Position(next_rows[-1][1], self._position.rows + len(next_rows))
            self._n_sent += len(next_rows)
        if self._position != self._stored_position:
            self._store()
        return len(next_rows)

    def _store(self) -> None:
        try:
            self._position_path.parent.mkdir(exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot write {self._position_path}: {error}") from error
        replace_file(self._position_path, json.dumps(asdict(self._position)).encode() + b"\n")
        self._stored_position = self._position

    def _on_failure(self, error: Exception) -> None:
        # after `abandon` the sink raises because it was abandoned; that is no failure
        if self._error is None and not self._is_abandoned:
            log.warning("logger %s: %s; rlox tries again and sends the missing rows", self.name, error)
        self._error = error

    def _close(self) -> None:
        try:
            self._sink.close()
        except Exception as error:
            self._error = self._error or error


def finish(followers: Sequence[Follower], timeout: float) -> dict[str, Delivery]:
    """Let all followers catch up within `timeout` seconds (at least 30 for sinks that start slowly).

    Warns of loggers that did not catch up.
    """
    for follower in followers:
        follower.end()
    start_time = time.monotonic()
    deliveries: dict[str, Delivery] = {}
    for f in sorted(followers, key=lambda f: f.starts_slowly):  # so that short waits come first
        seconds = max(timeout, START_SECONDS) if f.starts_slowly else timeout
        deliveries[f.name] = f.wait(start_time + seconds - time.monotonic())
    for name, delivery in deliveries.items():
        if not delivery.complete:
            warnings.warn(
                f"logger {name} {delivery}; metrics.jsonl has every row. "
                "To send what is missing: rlox sync, or rlox.loggers.catch_up(folder, config)",
                stacklevel=2,
            )
    return deliveries


def _read_position(file: Path) -> Position:
    """Read the stored position; the beginning if it is missing or damaged."""
    if not file.exists():
        return Position()
    try:
        data = json.loads(file.read_bytes())
        return Position(max(int(data["offset"]), 0), max(int(data["rows"]), 0))
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        log.warning("%s is damaged (%s); the logger begins anew", file, error)
        return Position()


def _position_at(metrics: Path, offset: int | None = None, rows: int | None = None) -> Position:
    """Return the position after the last whole row within `offset` bytes, or after the first `rows` rows."""
    position = Position()
    for _, end in iter_rows(metrics) if metrics.exists() else ():
        if (offset is not None and end > offset) or position.rows == rows:
            break
        position = Position(end, position.rows + 1)
    return position


def _is_row_end(metrics: Path, offset: int) -> bool:
    with metrics.open("rb") as file:
        file.seek(max(offset - 1, 0))
        return offset == 0 or file.read(1) == b"\n"
