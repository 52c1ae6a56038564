"""Handles Ctrl-C, SIGTERM, SIGUSR1 and a closing terminal.

The first signal asks the run to save and stop; a second one ends the process at once.
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

SAME_CAUSE_SECONDS = 1.0  # signals that come within this time have one cause
HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


STOPPING_MESSAGE = (
    "{}: stopping, and saving if the step under way ends within 2 s; a second signal quits without saving"
)


def signal_name(signum: int) -> str:
    """Return the usual name of the signal."""
    return "Ctrl-C" if signum == signal.SIGINT else signal.Signals(signum).name


class SignalInterrupt(BaseException):
    """A signal asked the process to stop; carries its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    @property
    def code(self) -> int:
        """The exit code of a process that the signal ended, as in a shell."""
        return 128 + self.signum


class Signals:
    """Context manager that handles signals for one command."""

    def __init__(self, ignores_repeats: bool = False) -> None:
        self.received_signal: int | None = None
        self.ignores_repeats = ignores_repeats  # in a worker: the sweep decides when to kill it
        self.on_second_signal: Callable[[], None] | None = None  # called first on a second signal
        self._received_at = 0.0
        self._raised_signal: int | None = None
        self._stop: Callable[[], None] | None = None
        self._previous: dict[signal.Signals, Any] = {}
        self._previous_hook = sys.unraisablehook

    @contextmanager
    def call_on_signal(self, stop: Callable[[], None]) -> Iterator[None]:
        """While active, a signal calls `stop` instead of raising `SignalInterrupt`."""
        self.raise_pending()
        self._stop = stop
        try:
            yield
        finally:
            self._stop = None

    def raise_pending(self) -> None:
        """Raise `SignalInterrupt` again: a library may have caught it, or raised another error."""
        if self._raised_signal is not None:
            raise SignalInterrupt(self._raised_signal)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # under `nohup` a closing terminal must have no effect
            ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
            handled = [number for number in HANDLED_SIGNALS if number not in ignored]
            self._previous = {s: signal.signal(s, self._handle) for s in handled}
            self._previous_hook, sys.unraisablehook = sys.unraisablehook, self._unraisable_hook
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
            sys.unraisablehook = self._previous_hook
        if isinstance(error, Exception):
            self.raise_pending()

    def _unraisable_hook(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Hide a `SignalInterrupt` in a destructor, as it ends nothing there; `raise_pending` repeats it."""
        if not isinstance(unraisable.exc_value, SignalInterrupt):
            self._previous_hook(unraisable)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.received_signal is not None:
            # a closing terminal sends SIGHUP twice, and the end of a login session also sends SIGTERM
            is_same_cause = (
                self.received_signal == signal.SIGHUP
                and time.monotonic() - self._received_at < SAME_CAUSE_SECONDS
            )
            if signum == signal.SIGHUP or is_same_cause or self.ignores_repeats:
                return
            if self.on_second_signal is not None:
                self.on_second_signal()
            os._exit(128 + signum)
        self.received_signal, self._received_at = signum, time.monotonic()
        if self._stop is None:
            self._raised_signal = signum
            raise SignalInterrupt(signum)
        self._stop()
        if self.ignores_repeats:
            return
        with suppress(OSError):  # standard error may have no reader any more
            os.write(2, f"\n{STOPPING_MESSAGE.format(signal_name(signum))}\n".encode())
