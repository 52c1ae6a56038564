"""A sweep whose jobs some library launches: what they tell, what became of them, and how they are stopped."""

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

from rlox_cli.remote_job import STOP_FILE, RemoteJob, has_exited, process_identity
from rlox_cli.run_folder import translate_os_errors
from rlox_cli.signals import Signals
from rlox_cli.sweep_display import Display
from rlox_cli.worker_pool import JobOutcome, Task

RUNNER_FILE = "runner.json"
NO_EXIT_MESSAGE = "its process ended without a word"


class ProcessExit(NamedTuple):
    """A process that a library had for a job is no more."""

    number: int
    reason: str = NO_EXIT_MESSAGE  # for a job that did not say how it ended


class JobExecutor(Protocol):
    """A library that has functions called in other processes."""

    grace: float  # seconds that what a process wrote may take to be seen here

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """Have all of them done, in whatever order and however many at a time."""

    def poll_exits(self) -> list[ProcessExit]:
        """Those that came to an end since it was last asked; waits a moment for one."""

    def cancel_pending(self) -> None:
        """Let none begin that has not; they count as ended."""

    def close(self, unfinished: Collection[int]) -> None:
        """Leave no process behind, least of all those of jobs that are not over."""


class JobEventDir:
    """A folder in which each job tells how it is doing, and is told to stop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offsets: dict[int, int] = {}

    def read_events(self, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """What came from these jobs since they were last asked."""
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
    """Has jobs done by an engine, and knows how each of them ended."""

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
        self._running: dict[int, Mapping[str, Any]] = {}  # their processes
        self._exited: dict[int, tuple[float, str]] = {}  # until when a last word may come
        self._stop_sent = False

    def run(self, tasks: Sequence[Task], jobs: Sequence[RemoteJob]) -> dict[int, JobOutcome]:
        """Have every job done, or as many as begin before a signal; how each of them ended."""
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
                self.event_dir.request_stop(signal.SIGTERM)  # whatever happened: nobody goes on unwatched
            self.executor.close(self._unfinished.keys())
        return self.outcomes

    def _poll(self) -> None:
        for number, reason in self.executor.poll_exits():
            if number in self._unfinished:
                self._exited.setdefault(number, (time.monotonic() + self.executor.grace, reason))
        for number, event in self.event_dir.read_events(list(self._unfinished)):
            if number in self._unfinished:  # after its end it has nothing more to tell
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
            self.display.print_lines(number, "its time was up: it is begun anew where it was")
        else:
            self.display.on_event(number, event)

    def _finish(self, number: int, outcome: JobOutcome) -> None:
        self._forget(number)
        self.outcomes[number] = outcome
        self.display.on_ended(number, outcome)

    def _handle_exit(self, number: int, reason: str) -> None:
        """Note what a process that has ended left undone, unless it was told not to begin."""
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
    """A mailbox in the folder of a sweep, while it runs; those of sweeps that were killed are removed."""
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
