"""Stop requests for a run that is in the middle of long work.

After a request the work may continue for a grace period, to reach a point where it can be saved. After
that it stops at the next minibatch or environment step, and resumes from its last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["StopDeadline", "StopRequested", "raise_if_expired"]

GRACE_SECONDS = 2.0  # time to reach a point where the run can be saved
HEARTBEAT_SECONDS = 2.0  # seconds between heartbeats


class StopRequested(BaseException):
    """Aborts the current work; derives from BaseException so that `except Exception` does not catch it."""


class StopDeadline:
    """The time limit of work that was asked to stop.

    `on_heartbeat` is called every few seconds while the work goes on, from the thread that works.
    """

    def __init__(self, on_heartbeat: Callable[[], None] | None = None) -> None:
        self._started: float | None = None
        self._on_heartbeat, self._last_heartbeat = on_heartbeat, time.monotonic()

    def start(self) -> None:
        """Start the grace period; safe to call from a signal handler."""
        self._started = self._started or time.monotonic()

    def is_expired(self) -> bool:
        """Return whether the grace period is over."""
        return self._started is not None and time.monotonic() - self._started > GRACE_SECONDS

    def heartbeat(self) -> None:
        """Call `on_heartbeat` if it is due."""
        if self._on_heartbeat is not None and time.monotonic() - self._last_heartbeat >= HEARTBEAT_SECONDS:
            self._on_heartbeat()
            self.record_heartbeat()

    def record_heartbeat(self) -> None:
        """Note that a heartbeat was just sent elsewhere."""
        self._last_heartbeat = time.monotonic()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Apply this deadline to the work in the block; the innermost block counts."""
        global _active
        outer, _active = _active, self
        try:
            yield
        finally:
            _active = outer


_active: StopDeadline | None = None


def raise_if_expired() -> None:
    """Raise `StopRequested` if the grace period of a stop request is over.

    Called between minibatches and environment steps, and by long calls of `rlox._core`.
    """
    if _active is None:
        return
    if _active.is_expired():
        raise StopRequested
    _active.heartbeat()
