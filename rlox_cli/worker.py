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
from rlox_cli.job_reporter import JobReporter, ProgressContext
from rlox_cli.output import non_failing_output
from rlox_cli.signals import HANDLED_SIGNALS, SignalInterrupt, Signals

if TYPE_CHECKING:
    from rlox.runs.progress import ProgressSnapshot

PROGRESS_SECONDS = 0.25


class JsonJobReporter(JobReporter):
    """Says it in events, lines of JSON."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send_event(self, event: str, **content: Any) -> None:
        """Write one; whoever does not listen any more misses it."""
        data = memoryview(json.dumps({"event": event, **content}).encode() + b"\n")
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

    def message(self, kind: str, text: str) -> None:
        """A part of the story; the sweep chooses what is shown."""
        self.send_event("said", about=kind, text=text)

    def report_error(self, text: str) -> None:
        """Nothing: the outcome has it."""

    def progress(self) -> ProgressContext:
        """Now and then."""
        return self._progress()

    def report_outcome(self, outcome: dict[str, Any], is_last: bool) -> None:
        """The last word on a job."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.send_event("ended", outcome=outcome, last=is_last)

    @contextmanager
    def _progress(self) -> Iterator[Any]:
        next_report = 0.0

        def report(snapshot: ProgressSnapshot) -> None:
            nonlocal next_report
            if time.monotonic() >= next_report or snapshot.now >= snapshot.total:
                next_report = time.monotonic() + PROGRESS_SECONDS
                self.send_event("progress", snapshot=asdict(snapshot))

        yield report


class EventStream(io.TextIOBase):
    """Standard output, or error: whole lines become events."""

    def __init__(self, reporter: JsonJobReporter, is_error: bool = False) -> None:
        self._reporter, self._partial_line, self._is_error = reporter, "", is_error

    def write(self, text: str) -> int:
        """Tell what is whole."""
        *lines, self._partial_line = (self._partial_line + text).split("\n")
        for line in lines:
            self._reporter.send_event("printed", text=line, error=self._is_error)
        return len(text)

    def flush(self) -> None:
        """Tell what is left too."""
        if self._partial_line:
            self.write("\n")


def serve(worker_init: Mapping[str, Any], orders: IO[bytes], events: int) -> int:
    """Do what is ordered until nothing more is; the exit code."""
    reporter = JsonJobReporter(events)
    sys.stdout = cast(Any, EventStream(reporter))
    sys.stderr.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with non_failing_output():
        try:
            with Signals(ignores_repeats=True) as signals:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
                return _run_jobs(worker_init, orders, signals, reporter)
        except SignalInterrupt as interrupt:
            return interrupt.code
        except Exception as error:  # of the jobs none: they keep theirs
            from rlox_cli.messages import describe

            print(f"the worker failed: {describe(error)}", file=sys.stderr)
            return FAILED


def _run_jobs(
    worker_init: Mapping[str, Any], orders: IO[bytes], signals: Signals, reporter: JsonJobReporter
) -> int:
    orders_queue: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read_orders, args=(orders, orders_queue, signals), daemon=True).start()
    from rlox_cli import compose
    from rlox_cli.training import TrainTask

    command = commands.load(worker_init["command"])
    call = Call(command, worker_init["typed"], signals, worker_init["full_trace"], reporter)
    task = TrainTask(call)
    task.common_overrides = frozenset(worker_init["common"])
    with compose.sweep_job(call, worker_init["args"], task) as job:
        while "job" in (order := orders_queue.get()):
            job(order["job"], order["overrides"])
    return OK


def _read_orders(orders: IO[bytes], orders_queue: queue.Queue[dict[str, Any]], signals: Signals) -> None:
    """Hand on orders; a stop, and the end of whoever gives them, are signals to this very process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # they are for the main thread, which may wait
    for line in orders:
        order = json.loads(line)
        if "stop" in order:
            _signal_main_thread(signals, order["stop"])
        else:
            orders_queue.put(order)
            if "bye" in order:
                return
    _signal_main_thread(signals, signal.SIGTERM)


def _signal_main_thread(signals: Signals, signum: int) -> None:
    main = threading.main_thread().ident
    if signals.received_signal is None and main is not None:
        signal.pthread_kill(main, signum)
