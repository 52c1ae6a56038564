"""Ctrl-C at a chosen moment, from another process, with the time at which it was sent."""

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
    """What became of a call."""

    raised: bool
    """False if it was done before the signal came."""
    seconds: float
    """From the signal to its end; 0 if it was done before."""


class Interrupter:
    """Context manager: sends SIGINT to this process while it is in a call."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-c", _SENDER, str(os.getpid())]
        pipe = subprocess.PIPE
        self._armed = False
        self._before = signal.signal(signal.SIGINT, self._handle)
        self._sender = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        # the first signal tells that it has started
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
        """Makes the call; the signal comes `delay` seconds after its beginning."""
        assert self._sender.stdin and self._sender.stdout
        raised = False
        self._armed = True
        try:
            self._sender.stdin.write(f"{delay}\n")
            self._sender.stdin.flush()
            call()
            self._armed = False
        except KeyboardInterrupt:
            raised = True
        self._armed = False
        end = time.monotonic()
        sent = float(self._sender.stdout.readline())
        return Interrupted(raised, max(end - sent, 0.0))
