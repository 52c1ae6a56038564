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

from rlox_cli.crew import Outcome, Task
from rlox_cli.errand import STOP, Errand, gone, here
from rlox_cli.run_folder import writing
from rlox_cli.signals import Signals
from rlox_cli.sweep_display import Display

RUNNER = "runner.json"
SILENT = "its process ended without a word"


class End(NamedTuple):
    """A process that a library had for a job is no more."""

    number: int
    how: str = SILENT  # for a job that did not say how it ended


class Engine(Protocol):
    """A library that has functions called in other processes."""

    grace: float  # seconds that what a process wrote may take to be seen here

    def begin(self, errands: Sequence[Errand]) -> None:
        """Have all of them done, in whatever order and however many at a time."""

    def ended(self) -> list[End]:
        """Those that came to an end since it was last asked; waits a moment for one."""

    def recall(self) -> None:
        """Let none begin that has not; they count as ended."""

    def close(self, left: Collection[int]) -> None:
        """Leave no process behind, least of all those of jobs that are not over."""


class Mailbox:
    """A folder in which each job tells how it is doing, and is told to stop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[int, int] = {}

    def letters(self, numbers: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """What came from these jobs since they were last asked."""
        for number in numbers:
            for event in self._news(number):
                yield number, event

    def stop(self, signum: int) -> None:
        """Ask all jobs to save and end."""
        fresh = self.path / f".{STOP}"
        with writing(fresh):
            fresh.write_text(str(int(signum)))
            fresh.replace(self.path / STOP)

    def _news(self, number: int) -> list[dict[str, Any]]:
        try:
            with (self.path / f"{number}.jsonl").open("rb") as file:
                file.seek(self._read.get(number, 0))
                whole = file.read().rpartition(b"\n")[0]
        except OSError:
            return []
        if not whole:
            return []
        self._read[number] = self._read.get(number, 0) + len(whole) + 1
        return [event for event in map(_event, whole.split(b"\n")) if event]


class Desk:
    """Has jobs done by an engine, and knows how each of them ended."""

    def __init__(
        self,
        engine: Engine,
        mailbox: Mailbox,
        shown: Display,
        signals: Signals,
        died: Callable[[Task, str], Outcome],
    ) -> None:
        self.engine, self.mailbox, self.shown = engine, mailbox, shown
        self.signals, self.died = signals, died
        self.outcomes: dict[int, Outcome] = {}  # in the order in which the jobs ended
        self._open: dict[int, Task] = {}
        self._running: dict[int, Mapping[str, Any]] = {}  # their processes
        self._silent: dict[int, tuple[float, str]] = {}  # until when a last word may come
        self._told = False

    def work(self, tasks: Sequence[Task], errands: Sequence[Errand]) -> dict[int, Outcome]:
        """Have every job done, or as many as begin before a signal; how each of them ended."""
        self._open = {task.number: task for task in tasks}
        self.signals.at_once = self._strike
        try:
            with self.signals.stopping(lambda: None):
                self.engine.begin(errands)
                while self._open:
                    if self.signals.received is not None and not self._told:
                        self._told = True
                        self.mailbox.stop(self.signals.received)
                        self.engine.recall()
                    self._listen()
        finally:
            self.signals.at_once = None
            with suppress(OSError):
                self.mailbox.stop(signal.SIGTERM)  # whatever happened: nobody goes on unwatched
            self.engine.close(self._open.keys())
        return self.outcomes

    def _listen(self) -> None:
        for number, how in self.engine.ended():
            if number in self._open:
                self._silent.setdefault(number, (time.monotonic() + self.engine.grace, how))
        for number, event in self.mailbox.letters(list(self._open)):
            if number in self._open:  # after its end it has nothing more to tell
                self._take(number, event)
        for number, (due, how) in list(self._silent.items()):
            if number in self._open and time.monotonic() >= due:
                self._bury(number, how)
        self.shown.tick()

    def _take(self, number: int, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "started":
            self._running[number] = event
            self.shown.started(number, self._open[number].overrides)
        elif kind == "ended":
            self._end(number, event["outcome"])
        elif kind == "left" and not self._told:
            self._end(number, self.died(self._open[number], "a signal ended it before it began"))
        elif kind == "left":
            self._forget(number)
            self.shown.stopped(number)
        elif kind == "preempted":
            self.shown.line(number, "its time was up: it is begun anew where it was")
        else:
            self.shown.event(number, event)

    def _end(self, number: int, outcome: Outcome) -> None:
        self._forget(number)
        self.outcomes[number] = outcome
        self.shown.ended(number, outcome)

    def _bury(self, number: int, how: str) -> None:
        """Note what a process that has ended left undone, unless it was told not to begin."""
        if self._told and number not in self._running:
            self._forget(number)
        else:
            self._end(number, self.died(self._open[number], how))

    def _forget(self, number: int) -> None:
        for kept in (self._open, self._running, self._silent):
            kept.pop(number, None)

    def _strike(self) -> None:
        for process in self._running.values():
            if process["host"] == here()["host"]:
                with suppress(OSError):
                    os.kill(process["pid"], signal.SIGKILL)


@contextmanager
def mailbox(sweep: Path) -> Iterator[Mailbox]:
    """A mailbox in the folder of a sweep, while it runs; those of sweeps that were killed are removed."""
    for path in sweep.glob(".jobs-*"):
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            if gone(json.loads((path / RUNNER).read_text())):
                shutil.rmtree(path)
    path = sweep / f".jobs-{secrets.token_hex(4)}"
    try:
        with writing(path):
            path.mkdir()
            (path / RUNNER).write_text(json.dumps(here()))
        yield Mailbox(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _event(line: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        event = json.loads(line)
        if isinstance(event, dict) and "event" in event:
            return event
    return None
