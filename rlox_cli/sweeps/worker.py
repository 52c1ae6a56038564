"""A worker of a sweep: runs its jobs one after another and reports their events."""

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
from rlox_cli.runs.signals import HANDLED_SIGNALS, SignalInterrupt, Signals
from rlox_cli.shell.command import Call
from rlox_cli.shell.exit_codes import FAILED, OK
from rlox_cli.shell.output import non_failing_output
from rlox_cli.sweeps.job_reporter import JobReporter, ProgressContext

if TYPE_CHECKING:
    from rlox.runs.progress import ProgressSnapshot

PROGRESS_SECONDS = 0.25


class JsonJobReporter(JobReporter):
    """Reports by events; each is a line of JSON."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send_event(self, event: str, **content: Any) -> None:
        """Write one event; it is lost if its reader is gone."""
        data = memoryview(json.dumps({"event": event, **content}).encode() + b"\n")
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]

    def message(self, kind: str, text: str) -> None:
        """Send a message; the sweep chooses which messages it shows."""
        self.send_event("said", about=kind, text=text)

    def report_error(self, text: str) -> None:
        """Do nothing: the outcome has the error."""

    def progress(self) -> ProgressContext:
        """Return a context manager that gives a function to report progress to."""
        return self._progress()

    def report_outcome(self, outcome: dict[str, Any], is_interrupted: bool) -> None:
        """Send the outcome, the last event of a job."""
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self.send_event("ended", outcome=outcome, last=is_interrupted)

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
    """A stream in place of standard output or error; it sends each whole line as an event."""

    def __init__(self, reporter: JsonJobReporter, is_error: bool = False) -> None:
        self._reporter, self._partial_line, self._is_error = reporter, "", is_error

    def write(self, text: str) -> int:
        """Send the whole lines."""
        *lines, self._partial_line = (self._partial_line + text).split("\n")
        for line in lines:
            self._reporter.send_event("printed", text=line, error=self._is_error)
        return len(text)

    def flush(self) -> None:
        """Send the text of an unfinished line as a line."""
        if self._partial_line:
            self.write("\n")


def serve(worker_init: Mapping[str, Any], orders: IO[bytes], events: int) -> int:
    """Run the ordered jobs until there are no more; return the exit code."""
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
        except Exception as error:  # not of a job: jobs handle their own errors
            from rlox_cli.shell.messages import describe

            print(f"the worker failed: {describe(error)}", file=sys.stderr)
            return FAILED


def _run_jobs(
    worker_init: Mapping[str, Any], orders: IO[bytes], signals: Signals, reporter: JsonJobReporter
) -> int:
    orders_queue: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read_orders, args=(orders, orders_queue, signals), daemon=True).start()
    from rlox_cli.config import compose
    from rlox_cli.runs.training import TrainTask

    command = commands.load(worker_init["command"])
    call = Call(command, worker_init["typed"], signals, worker_init["full_trace"], reporter)
    task = TrainTask(call)
    task.common_overrides = frozenset(worker_init["common"])
    with compose.job_launcher(call, worker_init["args"], task) as launch:
        while "job" in (order := orders_queue.get()):
            launch(order["job"], order["overrides"])
    return OK


def _read_orders(orders: IO[bytes], orders_queue: queue.Queue[dict[str, Any]], signals: Signals) -> None:
    """Queue the orders; a stop order, or the end of the sweep, becomes a signal to this process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)  # the main thread gets them; it may wait
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
