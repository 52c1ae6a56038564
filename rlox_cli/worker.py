"""A worker of a sweep: does the jobs it is given one after another, and tells how they are doing."""

from __future__ import annotations

import io
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any, cast

from rlox_cli import commands
from rlox_cli.command import Call
from rlox_cli.exit_codes import FAILED, OK
from rlox_cli.output import lasting_output
from rlox_cli.signals import HANDLED, Interrupted, Signals
from rlox_cli.voice import Reporter, Voice

if TYPE_CHECKING:
    from rlox.runs.progress import Snapshot

PROGRESS_SECONDS = 0.25


class Teller(Voice):
    """Says it in events, lines of JSON."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def tell(self, event: str, **content: Any) -> None:
        """Write one; whoever does not listen any more misses it."""
        data = memoryview(json.dumps({"event": event, **content}).encode() + b"\n")
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

    def say(self, about: str, text: str) -> None:
        """A part of the story; the sweep chooses what is shown."""
        self.tell("said", about=about, text=text)

    def failed(self, text: str) -> None:
        """Nothing: the outcome has it."""

    def reporter(self) -> Reporter:
        """Now and then."""
        return self._reporting()

    def outcome(self, ended: dict[str, Any], last: bool) -> None:
        """The last word on a job."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.tell("ended", outcome=ended, last=last)

    @contextmanager
    def _reporting(self) -> Iterator[Any]:
        due = 0.0

        def report(now: Snapshot) -> None:
            nonlocal due
            if time.monotonic() >= due or now.now >= now.total:
                due = time.monotonic() + PROGRESS_SECONDS
                self.tell("progress", snapshot=asdict(now))

        yield report


class Printed(io.TextIOBase):
    """Standard output, or error: whole lines become events."""

    def __init__(self, teller: Teller, error: bool = False) -> None:
        self._teller, self._rest, self._error = teller, "", error

    def write(self, text: str) -> int:
        """Tell what is whole."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._teller.tell("printed", text=line, error=self._error)
        return len(text)

    def flush(self) -> None:
        """Tell what is left too."""
        if self._rest:
            self.write("\n")


def serve(greeting: Mapping[str, Any], orders: IO[bytes], events: int) -> int:
    """Do what is ordered until nothing more is; the exit code."""
    teller = Teller(events)
    sys.stdout = cast(Any, Printed(teller))
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with lasting_output():
        try:
            with Signals(patient=True) as signals:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
                return _serve(greeting, orders, signals, teller)
        except Interrupted as stopped:
            return stopped.code
        except Exception as error:  # of the jobs none: they keep theirs
            from rlox_cli.messages import describe

            print(f"the worker failed: {describe(error)}", file=sys.stderr)
            return FAILED


def _serve(greeting: Mapping[str, Any], orders: IO[bytes], signals: Signals, teller: Teller) -> int:
    waiting: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders, waiting, signals), daemon=True).start()
    from rlox_cli import compose
    from rlox_cli.training import TrainTask

    command = commands.load(greeting["command"])
    call = Call(command, greeting["typed"], signals, greeting["full_trace"], teller)
    task = TrainTask(call)
    task.common = frozenset(greeting["common"])
    with compose.sweep_job(call, greeting["args"], task) as job:
        while "job" in (order := waiting.get()):
            job(order["job"], order["overrides"])
    return OK


def _listen(orders: IO[bytes], waiting: queue.Queue[dict[str, Any]], signals: Signals) -> None:
    """Hand on orders; a stop, and the end of whoever gives them, are signals to this very process."""
    signal.pthread_sigmask(
        signal.SIG_BLOCK, HANDLED
    )  # they are for the main thread, which may wait
    for line in orders:
        order = json.loads(line)
        if "stop" in order:
            _stop(signals, order["stop"])
        else:
            waiting.put(order)
            if "bye" in order:
                return
    _stop(signals, signal.SIGTERM)


def _stop(signals: Signals, signum: int) -> None:
    main = threading.main_thread().ident
    if signals.received is None and main is not None:
        signal.pthread_kill(main, signum)
