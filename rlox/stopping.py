"""A run that is asked to stop in the middle of something long.

It may go on for a moment, to where it can be saved. After that it is abandoned at the next minibatch or
step of the environments, and goes on from its last checkpoint when it is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["StopDeadline", "StopRequested", "raise_if_expired"]

GRACE_SECONDS = 2.0  # seconds
HEARTBEAT_SECONDS = 2.0  # between signs of life


class StopRequested(BaseException):
    """Ends what is under way; no handler of `Exception` is meant to see it."""


class StopDeadline:
    """How long work that was asked to stop may still go on.

    `on_heartbeat` is called every few seconds of it, from the thread that works.
    """

    def __init__(self, on_heartbeat: Callable[[], None] | None = None) -> None:
        self._started: float | None = None
        self._on_heartbeat, self._last_heartbeat = on_heartbeat, time.monotonic()

    def start(self) -> None:
        """From now on a moment is left; safe to call from a signal handler."""
        self._started = self._started or time.monotonic()

    def is_expired(self) -> bool:
        """Whether the moment has passed."""
        return self._started is not None and time.monotonic() - self._started > GRACE_SECONDS

    def heartbeat(self) -> None:
        """Show that work goes on, if that is due."""
        if self._on_heartbeat is not None and time.monotonic() - self._last_heartbeat >= HEARTBEAT_SECONDS:
            self._on_heartbeat()
            self.record_heartbeat()

    def record_heartbeat(self) -> None:
        """Something else has just shown that work goes on."""
        self._last_heartbeat = time.monotonic()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Around work that can be abandoned; the innermost counts."""
        global _active
        outer, _active = _active, self
        try:
            yield
        finally:
            _active = outer


_active: StopDeadline | None = None


def raise_if_expired() -> None:
    """Raise `StopRequested` if the work was asked to stop longer ago than a moment.

    Called between minibatches and between steps of the environments, and by long calls of `rlox._core`.
    """
    if _active is None:
        return
    if _active.is_expired():
        raise StopRequested
    _active.heartbeat()
