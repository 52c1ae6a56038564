"""A worker of a sweep, on the sweep's side: its process, orders to it and output from it."""

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

from rlox_cli.runs.signals import HANDLED_SIGNALS

START_SCRIPT = Path(__file__).with_name("start_worker.py")
READ_SIZE = 65536
MAX_LINE_LENGTH = 1 << 20  # characters of a line; a longer one comes in pieces
EXIT_SECONDS = 5.0  # seconds that a process without work has to exit


class WorkerProcess:
    """A process that reads orders from standard input and writes events to standard output, text to error."""

    def __init__(self, worker_init: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        # The process inherits the mask: a signal waits until the process has handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        try:
            self.process = subprocess.Popen(
                # -P: a file in the current folder must not shadow one of Python's
                [sys.executable, "-P", str(START_SCRIPT)],
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
        self._partial = dict.fromkeys(self.streams, b"")
        self.is_leaving = False  # true once it has reported that it takes no more jobs
        self.send(worker_init)

    def send(self, order: Mapping[str, Any]) -> None:
        """Send an order; it is lost if the process has exited, which is noticed elsewhere."""
        with suppress(OSError, ValueError):
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()

    def read(self, stream: IO[bytes]) -> list[str] | None:
        """Return the whole lines that have arrived, perhaps none; `None` at the end."""
        try:
            data = os.read(stream.fileno(), READ_SIZE)
        except BlockingIOError:
            return []
        *complete, rest = (self._partial[stream] + data).split(b"\n")
        if len(rest) > MAX_LINE_LENGTH or (not data and rest):
            complete, rest = [*complete, rest], b""
        self._partial[stream] = rest
        lines = [line.decode(errors="replace") for line in complete]
        return lines if data or lines else None  # text before the end is a line too

    def parse_event(self, stream: IO[bytes], line: str) -> dict[str, Any] | None:
        """Return the event in a line, or `None` if it is not an event."""
        if stream is not self._events:
            return None
        try:
            parsed = json.loads(line)
        except ValueError:  # a child of the process wrote it
            return None
        return parsed if isinstance(parsed, dict) and "event" in parsed else None

    def has_data(self, stream: IO[bytes]) -> bool:
        """Return whether the stream has something to read or has ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            return bool(selector.select(0))

    def has_exited(self) -> bool:
        """Return whether the process has exited, even if others still hold its streams."""
        return self.process.poll() is not None

    def exited_by_signal(self) -> bool:
        """Return whether the process exited because a signal asked it to."""
        return (self.process.returncode or 0) in {128 + number for number in HANDLED_SIGNALS}

    def exit_description(self) -> str:
        """Return how the process ended, in words."""
        code = self.process.returncode
        if code is not None and -code in set(signal.Signals):
            name = signal.Signals(-code).name
            hint = " (perhaps out of memory)" if -code == signal.SIGKILL else ""
            return f"its process was ended by {name}{hint}"
        if self.exited_by_signal():
            return f"its process was stopped by {signal.Signals(code - 128).name}"
        return f"its process ended with exit code {code}"

    def wait(self) -> None:
        """Wait for the process to exit; the caller kills it if it does not."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_SECONDS)

    def kill(self) -> None:
        """Kill the process, unless it has exited."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()

    def kill_now(self) -> None:
        """Kill the process from a signal handler, without a wait: the handler may have interrupted one."""
        if self.process.returncode is None:
            with suppress(OSError):
                os.kill(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the streams of the process."""
        for stream in (self._orders, *self.streams):
            with suppress(OSError):
                stream.close()
