"""Handle, in the run's process, of a pool's worker processes."""

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

from rlox.envs.workers.messages import Failure, WorkerSetup
from rlox.envs.workers.shared_memory import new_memory
from rlox.envs.workers.wire import PeerClosed, ReplyTimeout, Wire, dumps, flush_all
from rlox.errors import EnvError

__all__ = ["WorkerSpawner"]

# Limits libraries to one thread: each worker has one CPU, and a template with more threads cannot be forked.
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TEMPLATE_CODE = (
    "import sys; sys.path[:] = {path!r}; from rlox.envs.workers.template import main; main({line}, {memory})"
)
MAX_TRACEBACK_BYTES = 1 << 16  # bytes read of a crashed worker's traceback
CLOSE_SECONDS = 2.0  # seconds for workers to close their environments


class WorkerSpawner:
    """Starts and ends workers through a template process, which is restarted if it dies."""

    def __init__(self, setup: WorkerSetup, start_timeout: float) -> None:
        self.memory_fd = new_memory()
        self._start_timeout = start_timeout  # seconds for the imports of the template
        self._pickled_setup = dumps(setup)
        self._pid = os.getpid()
        self._wires: dict[int, Wire] = {}
        self._traceback_fds: dict[int, int] = {}  # by worker: descriptor of the file for its traceback
        self._open_template()

    def start(self, worker: int, key: int) -> Wire:
        """Start a worker, whose first message is its `StartReply`; `key` seeds its global generators."""
        traceback_fd = self._traceback_fds[worker] = new_memory()
        wire, child_fds = Wire.pair()
        self._wires[worker] = wire
        try:
            self._request_start(worker, key, [*child_fds, traceback_fd])
        except (PeerClosed, ReplyTimeout, OSError):
            self._open_template()
            self._request_start(worker, key, [*child_fds, traceback_fd])
        for fd in child_fds:
            os.close(fd)
        if not self._can_fork:
            with suppress(PeerClosed, ReplyTimeout):
                wire.send_pickled(self._pickled_setup, time.monotonic() + self._start_timeout)
        return wire

    def end(self, workers: Mapping[int, bool]) -> dict[int, tuple[str, str]]:
        """End workers that timed out (true) or closed their wire; returns exit text and traceback of each."""
        for worker in workers:
            self._wires.pop(worker).close()
        deadline = time.monotonic() + self._start_timeout
        try:
            self._template.send(("end", dict(workers)), deadline)
            codes = self._template.receive(deadline)
            exit_texts = {worker: "" if code is None else _exit_text(code) for worker, code in codes.items()}
        except (PeerClosed, ReplyTimeout):
            self._close_template()  # this kills all workers, which later calls then find dead
            exit_texts = dict.fromkeys(workers, "the process that started it died")
        return {worker: (exit_texts[worker], self._read_traceback(worker)) for worker in workers}

    def close(self) -> None:
        """End all processes; workers that still respond close their environments."""
        if os.getpid() != self._pid:  # a fork of the run's process: the workers are not its own
            return
        for wire in self._wires.values():
            with suppress(PeerClosed):
                wire.send_nowait("close")
        deadline = time.monotonic() + CLOSE_SECONDS
        flush_all(self._wires.values(), deadline)
        for wire in self._wires.values():
            with suppress(PeerClosed, ReplyTimeout):
                while True:  # an unread reply may come first
                    wire.receive(deadline)
        for wire in self._wires.values():
            wire.close()
        for traceback_fd in self._traceback_fds.values():
            os.close(traceback_fd)
        self._wires.clear()
        self._traceback_fds.clear()
        self._close_template()
        if self.memory_fd >= 0:
            os.close(self.memory_fd)
            self.memory_fd = -1

    def _read_traceback(self, worker: int) -> str:
        """Return the traceback of an ended worker, if it could write one."""
        traceback_fd = self._traceback_fds.pop(worker)
        text = os.pread(traceback_fd, MAX_TRACEBACK_BYTES, 0).decode(errors="replace")
        os.close(traceback_fd)
        return text

    def _request_start(self, worker: int, key: int, fds: list[int]) -> None:
        self._template.send(("start", worker, key), time.monotonic() + self._start_timeout)
        with socket.socket(fileno=os.dup(self._template.read_fd)) as socket_:
            socket.send_fds(socket_, [b"f"], fds)

    def _open_template(self) -> None:
        """Start the template in its own process group, since Ctrl-C is for the run.

        It stays in the run's session, because Linux distributes CPU time by session.
        """
        self._close_template()
        parent_socket, child_socket = socket.socketpair()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        with child_socket:
            fds = child_socket.fileno(), self.memory_fd
            code = TEMPLATE_CODE.format(path=path, line=fds[0], memory=fds[1])
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code],
                env={**dict.fromkeys(ONE_THREAD, "1"), **os.environ},
                stdin=subprocess.DEVNULL,
                pass_fds=fds,
                process_group=0,
            )
        parent_socket.setblocking(False)
        socket_fd = parent_socket.detach()
        self._template = Wire(socket_fd, socket_fd)
        try:
            deadline = time.monotonic() + self._start_timeout
            self._template.send_pickled(self._pickled_setup, deadline)
            reply = self._template.receive(deadline)
        except (PeerClosed, ReplyTimeout) as error:
            raise EnvError(
                "the process that starts environments did not start; its messages are above"
            ) from error
        if isinstance(reply, Failure):
            raise EnvError(f"{reply.detail}\n{reply.trace}")
        self._can_fork: bool = reply

    _process: subprocess.Popen[bytes] | None = None

    def _close_template(self) -> None:
        if self._process is None:
            return
        self._template.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _exit_text(code: int) -> str:
    """Say how a process ended, for messages."""
    if code >= 0:
        return f"it exited with code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"
