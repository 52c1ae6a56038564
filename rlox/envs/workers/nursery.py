"""The run's handle of the processes of a pool."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rlox.envs.workers.job import Failure, Job
from rlox.envs.workers.memory import new_memory
from rlox.envs.workers.wire import Gone, Late, Wire, delivered, pickled
from rlox.errors import EnvError

__all__ = ["Nursery"]

# Of each worker, which has a CPU; libraries that start threads would keep the template from forking.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CODE = (
    "import sys; sys.path[:] = {path!r}; from rlox.envs.workers.template import main; "
    "main({line}, {memory})"
)
NOTES = 1 << 16  # bytes that are read of where a worker crashed
CLOSES = 2.0  # seconds that workers get to close their environments


class Nursery:
    """Starts and ends workers through a template process, which is started again if it dies."""

    def __init__(self, job: Job, patience: float) -> None:
        self.memory = new_memory()
        self._patience = patience  # seconds for the imports of the template
        self._job = pickled(job)
        self._pid = os.getpid()
        self._wires: dict[int, Wire] = {}
        self._notes: dict[int, int] = {}  # of each worker, a file for where it crashed or hangs
        self._open_template()

    def start(self, worker: int, key: int) -> Wire:
        """A new worker, whose first word is its `Report`; `key` is for its global generators."""
        notes = self._notes[worker] = new_memory()
        wire, theirs = Wire.pair()
        self._wires[worker] = wire
        try:
            self._ask_to_start(worker, key, [*theirs, notes])
        except (Gone, Late, OSError):
            self._open_template()
            self._ask_to_start(worker, key, [*theirs, notes])
        for fd in theirs:
            os.close(fd)
        if not self._forks:
            with suppress(Gone, Late):
                wire.send_pickled(self._job, time.monotonic() + self._patience)
        return wire

    def end(self, workers: Mapping[int, bool]) -> dict[int, tuple[str, str]]:
        """End workers whose line is closed, or that do not answer (true): how each ended, and where."""
        for worker in workers:
            self._wires.pop(worker).close()
        deadline = time.monotonic() + self._patience
        try:
            self._template.send(("end", dict(workers)), deadline)
            codes = self._template.receive(deadline)
            how = {worker: "" if code is None else _how(code) for worker, code in codes.items()}
        except (Gone, Late):
            self._close_template()  # and with it all workers, which are then found dead
            how = dict.fromkeys(workers, "the process that started it died")
        return {worker: (how[worker], self._noted(worker)) for worker in workers}

    def close(self) -> None:
        """End all processes; environments are closed where workers still listen."""
        if os.getpid() != self._pid:  # a fork, which is not their parent
            return
        for wire in self._wires.values():
            with suppress(Gone):
                wire.post("close")
        deadline = time.monotonic() + CLOSES
        delivered(self._wires.values(), deadline)
        for wire in self._wires.values():
            with suppress(Gone, Late):
                while True:  # an answer that nobody waited for may come first
                    wire.receive(deadline)
        for wire in self._wires.values():
            wire.close()
        for notes in self._notes.values():
            os.close(notes)
        self._wires.clear()
        self._notes.clear()
        self._close_template()
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1

    def _noted(self, worker: int) -> str:
        """Where a worker that is no more crashed or hung, as far as it could write it down."""
        notes = self._notes.pop(worker)
        where = os.pread(notes, NOTES, 0).decode(errors="replace")
        os.close(notes)
        return where

    def _ask_to_start(self, worker: int, key: int, fds: list[int]) -> None:
        self._template.send(("start", worker, key), time.monotonic() + self._patience)
        with socket.socket(fileno=os.dup(self._template.reads)) as line:
            socket.send_fds(line, [b"f"], fds)

    def _open_template(self) -> None:
        """Start the template, in a process group of its own: Ctrl-C is for the run.

        The session stays that of the run, as Linux shares out CPUs by sessions.
        """
        self._close_template()
        ours, theirs = socket.socketpair()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        with theirs:
            fds = theirs.fileno(), self.memory
            code = CODE.format(path=path, line=fds[0], memory=fds[1])
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                env={**dict.fromkeys(ONE_THREAD, "1"), **os.environ},
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                process_group=0,
            )
        ours.setblocking(False)
        line = ours.detach()
        self._template = Wire(line, line)
        try:
            deadline = time.monotonic() + self._patience
            self._template.send_pickled(self._job, deadline)
            answer = self._template.receive(deadline)
        except (Gone, Late) as error:
            raise EnvError(
                "the process that starts environments did not start; its messages are above"
            ) from error
        if isinstance(answer, Failure):
            raise EnvError(f"{answer.said}\n{answer.trace}")
        self._forks: bool = answer

    _process: subprocess.Popen[bytes] | None = None

    def _close_template(self) -> None:
        if self._process is None:
            return
        self._template.close()
        try:
            self._process.wait(CLOSES)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _how(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"
