"""Where rows go: `Sink`, and `Spool`, which keeps a slow or broken sink away from training."""

from __future__ import annotations

import contextlib
import queue
import threading
import warnings
from collections.abc import Mapping
from typing import Protocol

__all__ = ["Row", "Sink", "Spool"]

# One line of metrics: `env_steps`, `updates`, `seconds` and slash names such as `loss/policy`.
Row = Mapping[str, float | int | None]


class Sink(Protocol):
    """Something that takes metrics rows."""

    def write(self, row: Row) -> None:
        """Take one row."""

    def close(self) -> None:
        """Write what is held back and release files."""


class Spool:
    """Feeds a sink from a thread of its own: a slow sink never slows a run, a broken never stops it.

    At most `limit` rows wait; beyond that the oldest are dropped and counted in the warning.
    `metrics.jsonl` is written directly and stays complete.
    """

    def __init__(self, sink: Sink, name: str, limit: int = 100_000) -> None:
        self._sink = sink
        self._name = name
        self._rows: queue.Queue[Row | None] = queue.Queue()
        self._limit = limit
        self.dropped = 0
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"rlox-{name}", daemon=True)
        self._thread.start()

    def write(self, row: Row) -> None:
        """Queue a row and return at once."""
        if self._rows.qsize() >= self._limit:
            with contextlib.suppress(queue.Empty):  # the thread may have just taken the last
                self._rows.get_nowait()
                self.dropped += 1
        self._rows.put(row)

    def close(self, timeout: float = 5.0) -> None:
        """Wait up to `timeout` seconds for the queue to empty."""
        self._rows.put(None)
        self._thread.join(timeout)
        if self._thread.is_alive() or self.error or self.dropped:
            reason = self.error or f"{self._rows.qsize() + self.dropped} rows not written in time"
            warnings.warn(
                f"logger {self._name} is incomplete: {reason}; metrics.jsonl has every row",
                stacklevel=2,
            )

    def _run(self) -> None:
        while (row := self._rows.get()) is not None:
            if self.error is None:
                self._guarded(row)
        try:
            self._sink.close()
        except Exception as error:  # a third party's sink may raise anything; training goes on
            self.error = self.error or error

    def _guarded(self, row: Row) -> None:
        try:
            self._sink.write(row)
        except Exception as error:  # reported once, by close
            self.error = error
