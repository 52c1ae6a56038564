"""Sends Ctrl-C from another process at a chosen moment and records the time of sending."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, Self

from helpers.mid_call import on_interrupt_check

_SENDER = """
import os, signal, sys, time
for line in sys.stdin:
    time.sleep(float(line))
    sent = time.monotonic()
    os.kill(int(sys.argv[1]), signal.SIGINT)
    print(sent, flush=True)
"""


@dataclass(frozen=True)
class Interrupted:
    """How a call ended."""

    raised: bool
    """False if the call ended before the signal came."""
    seconds: float
    """Seconds from the signal to the end of the call; 0 if the call ended first."""


class Interrupter:
    """Context manager: sends SIGINT to this process while it is in a call."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-c", _SENDER, str(os.getpid())]
        pipe = subprocess.PIPE
        self._armed = False
        self._before = signal.signal(signal.SIGINT, self._handle)
        self._sender = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        # The first signal shows that the sender has started.
        self.during(lambda: time.sleep(0.001), 0.0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sender.communicate()
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._armed:
            raise KeyboardInterrupt

    def during(self, call: Callable[[], Any], delay: float) -> Interrupted:
        """Make the call and send the signal `delay` seconds after its beginning."""
        return self._make_call(call, delay)

    def during_wait(self, call: Callable[[], Any]) -> Interrupted:
        """Make the call; send the signal when a long call of the data plane first checks for interrupts."""
        with on_interrupt_check(lambda: self._sent or self._send(0.0)):
            return self._make_call(call, None)

    def lateness(self) -> float:
        """Return the present delay of any interrupt: seconds from a signal to the end of a Python loop."""

        def endless() -> None:
            while True:
                pass

        return self.during(endless, 0.01).seconds

    def _send(self, delay: float) -> None:
        assert self._sender.stdin
        self._sent = True
        self._sender.stdin.write(f"{delay}\n")
        self._sender.stdin.flush()

    def _make_call(self, call: Callable[[], Any], delay: float | None) -> Interrupted:
        assert self._sender.stdout
        raised, self._sent = False, False
        self._armed = True
        try:
            if delay is not None:
                self._send(delay)
            call()
            self._armed = False
        except KeyboardInterrupt:
            raised = True
        self._armed = False
        end = time.monotonic()
        if not self._sent:
            return Interrupted(False, 0.0)
        return Interrupted(raised, max(end - float(self._sender.stdout.readline()), 0.0))
