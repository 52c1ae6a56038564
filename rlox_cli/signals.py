"""Ctrl-C, SIGTERM, SIGUSR1 and a terminal that goes away: the first signal asks the run to save and stop,
the second leaves at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

TOGETHER = 1.0  # seconds within which signals of one cause come
HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


STOPPING = (
    "{}: stopping, and saving if the step under way ends within 2 s; again: quit without saving"
)


def said(signum: int) -> str:
    """What people call the signal."""
    return "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name


class Interrupted(BaseException):
    """A signal asked the process to stop; carries its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    @property
    def code(self) -> int:
        """The exit code by which a shell knows the signal."""
        return 128 + self.signum


class Signals:
    """Context manager that owns both handlers for one command."""

    def __init__(self, patient: bool = False) -> None:
        self.received: int | None = None
        self.patient = patient  # of a worker: its sweep decides when it is enough
        self.at_once: Callable[[], None] | None = None  # what a second signal does first
        self._at = 0.0
        self._raised: int | None = None
        self._stop: Callable[[], None] | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._tell = sys.unraisablehook

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """While active, a signal calls `stop` instead of raising `Interrupted`."""
        self.settle()
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def settle(self) -> None:
        """Raise `Interrupted` again: libraries may have caught it, and gone on or failed otherwise."""
        if self._raised is not None:
            raise Interrupted(self._raised)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # `nohup` means that nothing shall happen when the terminal goes away
            left = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
            handled = [number for number in HANDLED if number not in left]
            self._previous = {s: signal.signal(s, self._handle) for s in handled}
            self._tell, sys.unraisablehook = sys.unraisablehook, self._untold
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        if self._previous:
            sys.unraisablehook = self._tell
        if isinstance(error, Exception):
            self.settle()

    def _untold(self, found: sys.UnraisableHookArgs) -> None:
        """What is raised in a destructor ends nothing, and Python shows it; `settle` raises it again."""
        if not isinstance(found.exc_value, Interrupted):
            self._tell(found)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.received is not None:
            # a terminal that goes away sends SIGHUP twice, and a session's end SIGTERM with it
            with_it = self.received == signal.SIGHUP and time.monotonic() - self._at < TOGETHER
            if signum == signal.SIGHUP or with_it or self.patient:
                return
            if self.at_once is not None:
                self.at_once()
            os._exit(128 + signum)
        self.received, self._at = signum, time.monotonic()
        if self._stop is None:
            self._raised = signum
            raise Interrupted(signum)
        self._stop()
        if self.patient:
            return
        with suppress(OSError):  # nobody may be left to read it
            os.write(2, f"\n{STOPPING.format(said(signum))}\n".encode())
