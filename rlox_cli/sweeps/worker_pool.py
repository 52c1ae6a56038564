"""Worker processes that share a list of jobs, and the loop that supervises them."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rlox.errors import RloxError
from rlox_cli.runs.signals import Signals
from rlox_cli.sweeps.display import Display
from rlox_cli.sweeps.worker_process import WorkerProcess

POLL_SECONDS = 0.1  # seconds until a signal or an exit is noticed

JobOutcome = dict[str, Any]


class Task(NamedTuple):
    """A job as a worker receives it."""

    number: int
    overrides: list[str]


class WorkerPool:
    """Worker processes that run one job after another; a worker that dies loses its job and is replaced."""

    def __init__(
        self,
        size: int,
        worker_init: Mapping[str, Any],
        display: Display,
        signals: Signals,
        death_outcome: Callable[[Task, str], JobOutcome],
        environment: Mapping[str, str],
    ) -> None:
        self.size, self.worker_init, self.environment = size, worker_init, environment
        self.display, self.signals, self.death_outcome = display, signals, death_outcome
        self.outcomes: dict[int, JobOutcome] = {}  # in the order in which the jobs ended
        self._busy: dict[WorkerProcess, Task] = {}
        self._idle: list[WorkerProcess] = []  # without a job
        self._selector = selectors.DefaultSelector()
        self._stop_sent = False

    def run(self, tasks: Sequence[Task]) -> dict[int, JobOutcome]:
        """Run every job, or those that begin before a signal; return the outcome of each."""
        pending = deque(tasks)
        self.signals.on_second_signal = self._kill_now
        try:
            # the loop checks `received_signal`: the output of a handler could land inside a line
            with self.signals.call_on_signal(lambda: None):
                while pending or self._busy:
                    if self.signals.received_signal is not None:
                        pending.clear()
                        self._send_stop(self.signals.received_signal)
                    self._assign(pending)
                    self._poll()
            self._shutdown()
        finally:
            self._kill()  # in any case: no process is left behind
            self.signals.on_second_signal = None
            self._selector.close()
        return self.outcomes

    def _assign(self, pending: deque[Task]) -> None:
        while pending and len(self._busy) < self.size:
            idle = [worker for worker in self._idle if not worker.is_leaving]
            worker = idle[0] if idle else self._spawn()
            if worker is None:
                return
            if idle:
                self._idle.remove(worker)
            task = pending.popleft()
            self._busy[worker] = task
            self.display.on_started(task.number, task.overrides)
            worker.send({"job": task.number, "overrides": task.overrides})

    def _spawn(self) -> WorkerProcess | None:
        """Start a process; return `None` if the system cannot start one and others are busy."""
        try:
            worker = WorkerProcess(self.worker_init, self.environment)
        except OSError as error:
            if not self._busy:
                raise RloxError(f"no worker can be started: {error.strerror}") from error
            self.size = len(self._busy)
            self.display.note(f"no more than {self.size} workers can be started: {error.strerror}")
            return None
        for stream in worker.streams:
            self._selector.register(stream, selectors.EVENT_READ, worker)
        return worker

    def _poll(self) -> None:
        for key, _ in self._selector.select(POLL_SECONDS):
            self._read(key.data, key.fileobj)
        for worker in [*self._busy, *self._idle]:
            if worker.has_exited():
                self._reap(worker)
        self.display.tick()

    def _read(self, worker: WorkerProcess, stream: Any) -> None:
        if stream not in self._selector.get_map():
            return  # the stream has ended since it was selected
        data = worker.read(stream)
        if data is None:
            self._selector.unregister(stream)
            return
        for line in data:
            event = worker.parse_event(stream, line)
            if event is not None and event.get("event") == "ended":
                self._drain(worker, worker.streams[1])  # earlier output comes first
            self._handle_event(worker, event, line)

    def _handle_event(self, worker: WorkerProcess, event: dict[str, Any] | None, line: str) -> None:
        task = self._busy.get(worker)
        number = task.number if task else None
        if event is None:
            self.display.print_lines(number, line, is_error=True)
        elif event["event"] == "ended" and task is not None:
            self._finish(worker, event["outcome"])
            self._idle.append(worker)
            worker.is_leaving = bool(event["last"])
        elif number is not None:
            self.display.on_event(number, event)

    def _finish(self, worker: WorkerProcess, outcome: JobOutcome) -> None:
        number = self._busy.pop(worker).number
        self.outcomes[number] = outcome
        self.display.on_ended(number, outcome)

    def _reap(self, worker: WorkerProcess) -> None:
        """Read the last output of a process that has exited, and record its unfinished job."""
        for stream in worker.streams:
            self._drain(worker, stream)
            if stream in self._selector.get_map():  # children of the process may keep the stream open
                self._selector.unregister(stream)
        task = self._busy.get(worker)
        if task is None:
            self._idle.remove(worker)
        elif self._stop_sent and worker.exited_by_signal():  # before its run began: no outcome
            del self._busy[worker]
            self.display.on_stopped(task.number)
        else:
            self._finish(worker, self.death_outcome(task, worker.exit_description()))
        worker.close()

    def _drain(self, worker: WorkerProcess, stream: Any) -> None:
        while stream in self._selector.get_map() and worker.has_data(stream):
            self._read(worker, stream)

    def _send_stop(self, signum: int) -> None:
        """Ask every worker once to save and stop; a terminal may have signalled it already."""
        if not self._stop_sent:
            self._stop_sent = True
            for worker in self._busy:
                worker.send({"stop": signum})

    def _shutdown(self) -> None:
        for worker in self._idle:
            worker.send({"bye": True})
        for worker in self._idle:
            worker.wait()

    def _kill_now(self) -> None:
        for worker in [*self._busy, *self._idle]:
            worker.kill_now()

    def _kill(self) -> None:
        for worker in [*self._busy, *self._idle]:
            worker.kill()
