"""Runs the real `rlox` command and reports the beginnings of phases and the time after a signal.

`python -m faults.phases PHASE COUNT ARGS...` runs `rlox ARGS...` and writes three kinds of lines to standard
error: `reached PHASE` when that phase begins for the COUNTth time, `heard PHASE TIME` when a signal's handler
runs, and `spent {phase: seconds}` at the exit, with the seconds since the handler ran.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from faults.command import PLACES, wrap

# Phases that import no torch: if the caller awaits one of them, torch is imported after it, as in a run.
LIGHT = ("composing",)


class PhaseTimer:
    """Records the current phase, and the time in each phase after a signal."""

    def __init__(self, phase: str, count: int) -> None:
        self._awaited, self._calls_left = phase, count
        self._phases = ["start"]
        self._since: float | None = None
        self._spent: Counter[str] = Counter()

    def on_signal(self) -> None:
        """Report that a handler runs, and begin to measure time."""
        self._since = time.monotonic()
        os.write(2, f"\nheard {self._phases[-1]} {self._since}\n".encode())

    def in_phase(self, phase: str, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return the callable with a timer; after the last phase of a run all time belongs to its exit."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            self._count()
            self._phases[0] = "between"
            self._phases.append(phase)
            self._calls_left -= phase == self._awaited
            if phase == self._awaited and self._calls_left == 0:
                os.write(2, f"\nreached {phase}\n".encode())
            try:
                return real(*args, **kwargs)
            finally:
                self._count()
                if phase == "finishing":
                    self._phases[:-1] = []
                else:
                    self._phases.pop()

        return watched

    def report(self) -> None:
        """Write the measured times, if a signal came."""
        self._count()
        if self._since is not None:
            os.write(2, f"\nspent {json.dumps(self._spent)}\n".encode())

    def _count(self) -> None:
        if self._since is not None:
            now = time.monotonic()
            self._spent[self._phases[-1]] += now - self._since
            self._since = now


def _watch(phase: str, count: int) -> None:
    """Make all phases and signal handlers report."""
    from rlox_cli.runs.signals import HANDLED_SIGNALS, Signals

    watch = PhaseTimer(phase, count)
    atexit.register(watch.report)
    enter = Signals.__enter__

    def entered(self: Signals) -> Signals:
        signals = enter(self)
        for number in HANDLED_SIGNALS:
            handle = signal.getsignal(number)
            if callable(handle):
                signal.signal(number, partial(_handle_and_record, watch, handle))
        return signals

    Signals.__enter__ = entered  # type: ignore[method-assign]
    for name, (call, _) in PLACES.items():
        if phase not in LIGHT or name in LIGHT:
            wrap(call, partial(watch.in_phase, name))


def _handle_and_record(watch: PhaseTimer, handle: Callable[..., Any], *args: Any) -> None:
    """Record the signal, then run its handler."""
    watch.on_signal()
    handle(*args)


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]))
    sys.argv[:] = ["rlox", *sys.argv[3:]]
    from rlox_cli.start import main

    sys.exit(main())
