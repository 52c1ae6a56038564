"""A worker of a sweep as the sweep sees it: a process, a line to it, and what comes from it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

from rlox_cli.signals import HANDLED

START = Path(__file__).with_name("start_worker.py")
CHUNK = 65536
LONGEST = 1 << 20  # characters of a line; what is longer comes in pieces
LEAVE = 5.0  # seconds to leave in, for a process that has nothing left to do


class WorkerProcess:
    """Its standard input takes orders, its standard output are events, its standard error is text."""

    def __init__(self, greeting: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        # A signal that comes before the process can answer waits until it can: it inherits the mask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
        try:
            self.process = subprocess.Popen(
                # -P: a file of the current folder must not stand in for one of Python's
                [sys.executable, "-P", str(START)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**environment},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._orders = cast(IO[bytes], self.process.stdin)
        self._events = cast(IO[bytes], self.process.stdout)
        self.streams = (self._events, cast(IO[bytes], self.process.stderr))
        for stream in self.streams:
            os.set_blocking(stream.fileno(), False)
        self._rest = dict.fromkeys(self.streams, b"")
        self.leaving = False  # it has said that it does no more jobs
        self.tell(greeting)

    def tell(self, order: Mapping[str, Any]) -> None:
        """Give an order; one that has ended does not hear it, which is noticed elsewhere."""
        with suppress(OSError, ValueError):
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()

    def read(self, stream: IO[bytes]) -> list[str] | None:
        """The whole lines that have come, perhaps none; `None` at the end."""
        try:
            data = os.read(stream.fileno(), CHUNK)
        except BlockingIOError:
            return []
        *whole, rest = (self._rest[stream] + data).split(b"\n")
        if len(rest) > LONGEST or (not data and rest):
            whole, rest = [*whole, rest], b""
        self._rest[stream] = rest
        lines = [line.decode(errors="replace") for line in whole]
        return lines if data or lines else None  # what stood before the end is a line too

    def event(self, stream: IO[bytes], line: str) -> dict[str, Any] | None:
        """What a line says, if it is one of its events."""
        if stream is not self._events:
            return None
        try:
            event = json.loads(line)
        except ValueError:  # a child of its own wrote there
            return None
        return event if isinstance(event, dict) and "event" in event else None

    def waiting(self, stream: IO[bytes]) -> bool:
        """Whether there is something to read, or the end."""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            return bool(selector.select(0))

    def ended(self) -> bool:
        """Whether the process is gone, whoever still holds its streams."""
        return self.process.poll() is not None

    def left_by_signal(self) -> bool:
        """Whether it left because a signal had asked it to."""
        return (self.process.returncode or 0) in {128 + number for number in HANDLED}

    def how(self) -> str:
        """How the process ended, in words."""
        code = self.process.returncode
        if code is not None and -code in set(signal.Signals):
            name = signal.Signals(-code).name
            hint = " (perhaps for want of memory)" if -code == signal.SIGKILL else ""
            return f"its process was ended by {name}{hint}"
        if self.left_by_signal():
            return f"its process was stopped by {signal.Signals(code - 128).name}"
        return f"its process ended with exit code {code}"

    def wait(self) -> None:
        """Let it leave; one that does not is killed by whoever waits."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(LEAVE)

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()

    def strike(self) -> None:
        """End it at once from a handler of signals, where waiting could be for what it interrupted."""
        if self.process.returncode is None:
            with suppress(OSError):
                os.kill(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Give back its streams."""
        for stream in (self._orders, *self.streams):
            with suppress(OSError):
                stream.close()
