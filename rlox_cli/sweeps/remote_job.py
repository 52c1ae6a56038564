"""A job of a sweep in a process that a library starts, perhaps on another machine.

The job writes its events to a file in the sweep's event folder, as lines of JSON like a worker's, and looks
there for a stop request. So the sweep knows each job's outcome, however the library reports its end.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, cast

from rlox_cli.runs.signals import HANDLED_SIGNALS, SignalInterrupt, Signals
from rlox_cli.shell.exit_codes import exit_code
from rlox_cli.sweeps.worker import EventStream, JsonJobReporter

POLL_SECONDS = 0.25  # seconds between checks of the event folder
STOP_FILE = "stop"
PREEMPTION_SIGNAL = signal.SIGUSR2  # submitit sends it before a job's time limit


def process_identity() -> dict[str, Any]:
    """Return host, pid and start time of this process, by which another process can look for it."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": _process_start_time(os.getpid())}


def has_exited(process: Mapping[str, Any]) -> bool:
    """Return whether a process of this machine has exited; false for another machine, where it is unknown."""
    return bool(
        process["host"] == socket.gethostname() and _process_start_time(process["pid"]) != process["since"]
    )


def _process_start_time(pid: int) -> str:
    """Return when a process began, in clock ticks after boot; empty if it has exited or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@dataclass
class RemoteJob:
    """Everything a process needs to run one job; calling it runs the job."""

    number: int
    overrides: list[str]
    events_dir: str
    worker_init: dict[str, Any]  # what a worker of the sweep gets before its first job
    environment: dict[str, str] = field(default_factory=dict)
    is_detached: bool = False  # the job goes on without the sweep

    def __call__(self) -> None:
        """Run the job; its outcome is in the event folder."""
        events_dir = Path(self.events_dir)
        stop_file = events_dir / STOP_FILE
        if stop_file.exists() or (not self.is_detached and has_exited(self.worker_init["runner"])):
            return
        os.environ.update(self.environment)
        with suppress(OSError):
            os.chdir(self.worker_init["folder"])
        sys.path[:] = self.worker_init["path"]
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            descriptor = os.open(events_dir / f"{self.number}.jsonl", flags, 0o600)
        except FileNotFoundError:  # the sweep is gone, so nobody reads the events
            descriptor = os.open(os.devnull, flags)
        try:
            self._run(_FileJobReporter(descriptor))
        finally:
            os.close(descriptor)
        if not self.is_detached and has_exited(self.worker_init["runner"]):
            os._exit(1)  # the process would wait for another job for ever

    def checkpoint(self, *args: Any) -> Any:
        """Return the same job for submitit to resubmit; it resumes from its checkpoint."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def _run(self, reporter: _FileJobReporter) -> None:
        reporter.send_event("started", **process_identity())
        with _redirect_output(reporter):
            try:
                with Signals(ignores_repeats=True) as signals:
                    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED_SIGNALS)
                    try:
                        with (
                            _handle_preemption(reporter),
                            _watch_stop_request(self._requested_signal, signals),
                        ):
                            self._train(reporter, signals)
                    finally:
                        signal.pthread_sigmask(signal.SIG_SETMASK, before)
            except SignalInterrupt:
                if reporter.on_preempted is None:
                    reporter.send_event("left")
            except Exception as error:  # an error of the sweep's code: jobs handle their own
                from rlox_cli.shell.messages import describe

                failure = {"status": "failed", "code": exit_code(error), "message": describe(error)}
                location = {"folder": None, "job": f"{self.number}", "identity": ""}
                reporter.report_outcome(failure | location, False)
        reporter.requeue_if_preempted()

    def _train(self, reporter: _FileJobReporter, signals: Signals) -> None:
        from rlox_cli import commands
        from rlox_cli.config import compose
        from rlox_cli.runs.training import TrainTask
        from rlox_cli.shell.command import Call

        worker_init = self.worker_init
        command = commands.load(worker_init["command"])
        call = Call(command, worker_init["typed"], signals, worker_init["full_trace"], reporter)
        task = TrainTask(call)
        task.common_overrides = frozenset(worker_init["common"])
        with compose.job_launcher(call, worker_init["args"], task) as launch:
            launch(self.number, self.overrides)

    def _requested_signal(self) -> int | None:
        """Return the signal that the sweep requests, or SIGTERM if the sweep has exited."""
        with suppress(OSError, ValueError):
            return int((Path(self.events_dir) / STOP_FILE).read_text())
        return None if self.is_detached or not has_exited(self.worker_init["runner"]) else signal.SIGTERM


class _FileJobReporter(JsonJobReporter):
    """Writes events to a file; it writes no outcome of a preempted job, which goes on elsewhere."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self.on_preempted: Callable[[], object] | None = None

    def report_outcome(self, outcome: dict[str, Any], is_interrupted: bool) -> None:
        """Report the outcome of the job, unless the job goes on elsewhere."""
        if self.on_preempted is None or outcome["status"] != "killed":
            self.on_preempted = None
            super().report_outcome(outcome, is_interrupted)

    def requeue_if_preempted(self) -> None:
        """Requeue the job if it was preempted."""
        if self.on_preempted is not None:
            self.send_event("preempted")
            self.on_preempted()


@contextmanager
def _handle_preemption(reporter: _FileJobReporter) -> Iterator[None]:
    """While active, a preemption signal first saves the run; then submitit's handler is called."""
    submitit_handler = signal.getsignal(PREEMPTION_SIGNAL)
    if not callable(submitit_handler):  # no handler, so no such signal comes
        yield
        return

    def on_preemption(number: int, frame: FrameType | None) -> None:
        reporter.on_preempted = lambda: submitit_handler(number, frame)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(PREEMPTION_SIGNAL, on_preemption)
    try:
        yield
    finally:
        signal.signal(PREEMPTION_SIGNAL, submitit_handler)


@contextmanager
def _watch_stop_request(requested_signal: Callable[[], int | None], signals: Signals) -> Iterator[None]:
    """While active, send the signal that the sweep requests to this process."""
    finished = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def watch() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
        while not finished.wait(POLL_SECONDS):
            number = requested_signal()
            if number is not None:
                if signals.received_signal is None:
                    signal.pthread_kill(main, number)
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


@contextmanager
def _redirect_output(reporter: JsonJobReporter) -> Iterator[None]:
    """While active, report what Python prints as events."""
    before = sys.stdout, sys.stderr
    sys.stdout = cast(Any, EventStream(reporter))
    sys.stderr = cast(Any, EventStream(reporter, is_error=True))
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
