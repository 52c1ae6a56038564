"""Worker processes that share a list of jobs, and the loop that looks after them."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rlox.errors import RloxError
from rlox_cli.signals import Signals
from rlox_cli.sweep_display import Display
from rlox_cli.worker_process import WorkerProcess

TICK = 0.1  # seconds until a signal, a death or the clock is noticed

Outcome = dict[str, Any]


class Task(NamedTuple):
    """A job as a worker is told it."""

    number: int
    overrides: list[str]


class Crew:
    """Each process does one job after another; one that dies takes its job with it and is replaced."""

    def __init__(
        self,
        size: int,
        greeting: Mapping[str, Any],
        shown: Display,
        signals: Signals,
        died: Callable[[Task, str], Outcome],
        environment: Mapping[str, str],
    ) -> None:
        self.size, self.greeting, self.environment = size, greeting, environment
        self.shown, self.signals, self.died = shown, signals, died
        self.outcomes: dict[int, Outcome] = {}  # in the order in which the jobs ended
        self._busy: dict[WorkerProcess, Task] = {}
        self._free: list[WorkerProcess] = []  # without a job
        self._selector = selectors.DefaultSelector()
        self._told = False

    def work(self, tasks: Sequence[Task]) -> dict[int, Outcome]:
        """Have every job done, or as many as begin before a signal; how each of them ended."""
        waiting = deque(tasks)
        self.signals.at_once = self._strike
        try:
            # the loop looks for `received`: what a handler wrote could land inside a line
            with self.signals.stopping(lambda: None):
                while waiting or self._busy:
                    if self.signals.received is not None:
                        waiting.clear()
                        self._stop(self.signals.received)
                    self._employ(waiting)
                    self._listen()
            self._dismiss()
        finally:
            self._kill()  # whatever happened: nobody is left behind
            self.signals.at_once = None
            self._selector.close()
        return self.outcomes

    def _employ(self, waiting: deque[Task]) -> None:
        while waiting and len(self._busy) < self.size:
            idle = [worker for worker in self._free if not worker.leaving]
            worker = idle[0] if idle else self._hire()
            if worker is None:
                return
            if idle:
                self._free.remove(worker)
            task = waiting.popleft()
            self._busy[worker] = task
            self.shown.started(task.number, task.overrides)
            worker.tell({"job": task.number, "overrides": task.overrides})

    def _hire(self) -> WorkerProcess | None:
        """A new process; `None` where the system has none to give and others are at work."""
        try:
            worker = WorkerProcess(self.greeting, self.environment)
        except OSError as error:
            if not self._busy:
                raise RloxError(f"no worker can be started: {error.strerror}") from error
            self.size = len(self._busy)
            self.shown.note(f"no more than {self.size} workers can be started: {error.strerror}")
            return None
        for stream in worker.streams:
            self._selector.register(stream, selectors.EVENT_READ, worker)
        return worker

    def _listen(self) -> None:
        for key, _ in self._selector.select(TICK):
            self._hear(key.data, key.fileobj)
        for worker in [*self._busy, *self._free]:
            if worker.ended():
                self._bury(worker)
        self.shown.tick()

    def _hear(self, worker: WorkerProcess, stream: Any) -> None:
        if stream not in self._selector.get_map():
            return  # it came to its end since it was selected
        data = worker.read(stream)
        if data is None:
            self._selector.unregister(stream)
            return
        for line in data:
            event = worker.event(stream, line)
            if event is not None and event.get("event") == "ended":
                self._drain(worker, worker.streams[1])  # what it said before comes before
            self._take(worker, event, line)

    def _take(self, worker: WorkerProcess, event: dict[str, Any] | None, line: str) -> None:
        task = self._busy.get(worker)
        number = task.number if task else None
        if event is None:
            self.shown.line(number, line, error=True)
        elif event["event"] == "ended" and task is not None:
            self._end(worker, event["outcome"])
            self._free.append(worker)
            worker.leaving = bool(event["last"])
        elif number is not None:
            self.shown.event(number, event)

    def _end(self, worker: WorkerProcess, outcome: Outcome) -> None:
        number = self._busy.pop(worker).number
        self.outcomes[number] = outcome
        self.shown.ended(number, outcome)

    def _bury(self, worker: WorkerProcess) -> None:
        """Take the last words of a process that has ended, and note what it left undone."""
        for stream in worker.streams:
            self._drain(worker, stream)
            if stream in self._selector.get_map():  # its own children may keep it open
                self._selector.unregister(stream)
        task = self._busy.get(worker)
        if task is None:
            self._free.remove(worker)
        elif self._told and worker.left_by_signal():  # before its run began: no more is known
            del self._busy[worker]
            self.shown.stopped(task.number)
        else:
            self._end(worker, self.died(task, worker.how()))
        worker.close()

    def _drain(self, worker: WorkerProcess, stream: Any) -> None:
        while stream in self._selector.get_map() and worker.waiting(stream):
            self._hear(worker, stream)

    def _stop(self, signum: int) -> None:
        """Ask every worker to save and stop, once: a terminal may have asked it already."""
        if not self._told:
            self._told = True
            for worker in self._busy:
                worker.tell({"stop": signum})

    def _dismiss(self) -> None:
        for worker in self._free:
            worker.tell({"bye": True})
        for worker in self._free:
            worker.wait()

    def _strike(self) -> None:
        for worker in [*self._busy, *self._free]:
            worker.strike()

    def _kill(self) -> None:
        for worker in [*self._busy, *self._free]:
            worker.kill()
