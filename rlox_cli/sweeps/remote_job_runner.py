"""Run a sweep's jobs through a library: read their events, record their outcomes, stop them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rlox_cli.runs.run_folder import translate_os_errors
from rlox_cli.runs.signals import Signals
from rlox_cli.sweeps.display import Display
from rlox_cli.sweeps.remote_job import STOP_FILE, RemoteJob, has_exited, process_identity
from rlox_cli.sweeps.worker_pool import JobOutcome, Task

RUNNER_FILE = "runner.json"
NO_OUTCOME_MESSAGE = "its process ended without reporting an outcome"


class ProcessExit(NamedTuple):
    """The exit of a process that a library started for a job."""

    number: int
    reason: str = NO_OUTCOME_MESSAGE  # for a job that reported no outcome


class JobExecutor(Protocol):
    """A library that calls functions in other processes."""

    grace_seconds: float  # seconds until a process's last writes are visible here

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """Run all jobs, in any order and any number at a time."""

    def poll_exits(self) -> list[ProcessExit]:
        """Return the exits since the last call; wait a moment for one."""

    def cancel_pending(self) -> None:
        """Cancel the jobs that have not begun; they count as exited."""

    def close(self, unfinished: Collection[int]) -> None:
        """Leave no process behind, above all none of an `unfinished` job."""


class JobEventDir:
    """A folder in which each job writes its events and finds the stop request."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offsets: dict[int, int] = {}

    def read_events(self, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the events of these jobs since the last call."""
        for number in numbers:
            for event in self._read_new_events(number):
                yield number, event

    def request_stop(self, signum: int) -> None:
        """Ask all jobs to save and end."""
        temporary = self.path / f".{STOP_FILE}"
        with translate_os_errors(temporary):
            temporary.write_text(str(int(signum)))
            temporary.replace(self.path / STOP_FILE)

    def _read_new_events(self, number: int) -> list[dict[str, Any]]:
        try:
            with (self.path / f"{number}.jsonl").open("rb") as file:
                file.seek(self._offsets.get(number, 0))
                complete = file.read().rpartition(b"\n")[0]
        except OSError:
            return []
        if not complete:
            return []
        self._offsets[number] = self._offsets.get(number, 0) + len(complete) + 1
        return [event for event in map(_parse_event, complete.split(b"\n")) if event]


class RemoteJobRunner:
    """Runs jobs in an executor and records the outcome of each."""

    def __init__(
        self,
        executor: JobExecutor,
        event_dir: JobEventDir,
        display: Display,
        signals: Signals,
        death_outcome: Callable[[Task, str], JobOutcome],
    ) -> None:
        self.executor, self.event_dir, self.display = executor, event_dir, display
        self.signals, self.death_outcome = signals, death_outcome
        self.outcomes: dict[int, JobOutcome] = {}  # in the order in which the jobs ended
        self._unfinished: dict[int, Task] = {}
        self._running: dict[int, Mapping[str, Any]] = {}  # the "started" events, which identify the processes
        self._exited: dict[int, tuple[float, str]] = {}  # the deadline for a last event, and the reason
        self._stop_sent = False

    def run(self, tasks: Sequence[Task], jobs: Sequence[RemoteJob]) -> dict[int, JobOutcome]:
        """Run every job, or those that begin before a signal; return the outcome of each."""
        self._unfinished = {task.number: task for task in tasks}
        self.signals.on_second_signal = self._kill_now
        try:
            with self.signals.call_on_signal(lambda: None):
                self.executor.submit(jobs)
                while self._unfinished:
                    if self.signals.received_signal is not None and not self._stop_sent:
                        self._stop_sent = True
                        self.event_dir.request_stop(self.signals.received_signal)
                        self.executor.cancel_pending()
                    self._poll()
        finally:
            self.signals.on_second_signal = None
            with suppress(OSError):
                self.event_dir.request_stop(signal.SIGTERM)  # in any case: no job goes on unwatched
            self.executor.close(self._unfinished.keys())
        return self.outcomes

    def _poll(self) -> None:
        for number, reason in self.executor.poll_exits():
            if number in self._unfinished:
                self._exited.setdefault(number, (time.monotonic() + self.executor.grace_seconds, reason))
        for number, event in self.event_dir.read_events(list(self._unfinished)):
            if number in self._unfinished:  # events after the job's end are ignored
                self._handle_event(number, event)
        for number, (deadline, reason) in list(self._exited.items()):
            if number in self._unfinished and time.monotonic() >= deadline:
                self._handle_exit(number, reason)
        self.display.tick()

    def _handle_event(self, number: int, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "started":
            self._running[number] = event
            self.display.on_started(number, self._unfinished[number].overrides)
        elif kind == "ended":
            self._finish(number, event["outcome"])
        elif kind == "left" and not self._stop_sent:
            self._finish(
                number, self.death_outcome(self._unfinished[number], "a signal ended it before it began")
            )
        elif kind == "left":
            self._forget(number)
            self.display.on_stopped(number)
        elif kind == "preempted":
            self.display.print_lines(
                number, "it was preempted or reached its time limit: it is resubmitted and resumes"
            )
        else:
            self.display.on_event(number, event)

    def _finish(self, number: int, outcome: JobOutcome) -> None:
        self._forget(number)
        self.outcomes[number] = outcome
        self.display.on_ended(number, outcome)

    def _handle_exit(self, number: int, reason: str) -> None:
        """Record a job whose process exited without an outcome, unless it was stopped before it began."""
        if self._stop_sent and number not in self._running:
            self._forget(number)
        else:
            self._finish(number, self.death_outcome(self._unfinished[number], reason))

    def _forget(self, number: int) -> None:
        for table in (self._unfinished, self._running, self._exited):
            table.pop(number, None)

    def _kill_now(self) -> None:
        for process in self._running.values():
            if process["host"] == process_identity()["host"]:
                with suppress(OSError):
                    os.kill(process["pid"], signal.SIGKILL)


@contextmanager
def open_event_dir(sweep: Path) -> Iterator[JobEventDir]:
    """Create an event folder and remove it at the end; also remove the folders that killed sweeps left."""
    for path in sweep.glob(".jobs-*"):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            if has_exited(json.loads((path / RUNNER_FILE).read_text())):
                shutil.rmtree(path)
    path = sweep / f".jobs-{secrets.token_hex(4)}"
    try:
        with translate_os_errors(path):
            path.mkdir()
            (path / RUNNER_FILE).write_text(json.dumps(process_identity()))
        yield JobEventDir(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _parse_event(line: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and "event" in event:
            return event
    return None
