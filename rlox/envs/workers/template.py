"""The template process: it imports what workers need, forks them, and ends them.

A fork takes milliseconds, while a new interpreter takes half a second for every worker that is replaced.
Unlike the run's process, the template has one thread, so that its forks inherit no held locks; if its imports
started threads, each worker is a new interpreter instead. The template does not outlive the run: when the
other end of its wire closes, for whatever reason, it kills its workers and all processes that they started.
On Linux these include processes that left the workers' process groups, because the template adopts them
when their parent ends.
"""

from __future__ import annotations

import ctypes
import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from rlox.envs.ids import register_specs
from rlox.envs.workers.messages import Failure, WorkerSetup
from rlox.envs.workers.wire import PeerClosed, Wire
from rlox.envs.workers.worker import TRACEBACK_SIGNAL, worker_main

__all__ = ["main", "request_tracebacks", "worker"]

EXIT_SECONDS = 2.0  # for a process with a closed wire to exit by itself
TRACEBACK_SECONDS = 1.0  # at most, for a hung worker to write its traceback
WORKER_VARIABLE = "RLOX_WORKER"  # marks a worker's descendants, even after their parents have ended
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(socket_fd: int, memory_fd: int) -> None:
    """Serve the pool at the other end of `socket_fd`; `memory_fd` is the memory shared with workers."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        # The run decides when to end. Not SIG_IGN, which the environments' child processes would inherit.
        signal.signal(number, _ignore_signal)
    wire = Wire.of(socket_fd, socket_fd)
    with suppress(PeerClosed):
        setup = _receive_setup(wire)
        if setup is not None:
            _Template(wire, memory_fd, setup).serve()


def worker(read_fd: int, write_fd: int, traceback_fd: int, memory_fd: int, index: int, key: int) -> None:
    """Run a worker in an interpreter of its own; its setup is the first message."""
    wire = Wire.of(read_fd, write_fd)
    setup = _receive_setup(wire)
    if setup is not None:
        worker_main(wire, memory_fd, traceback_fd, setup, index, key)


def _ignore_signal(number: int, frame: Any) -> None:
    """Ignore a signal."""


def _receive_setup(wire: Wire) -> WorkerSetup | None:
    """Receive the setup of the workers; if an import of it fails, report that and return `None`."""
    try:
        setup: WorkerSetup = wire.receive()
        register_specs(setup.specs.fn)
    except PeerClosed:
        raise
    except (Exception, SystemExit) as error:
        detail = f"a subprocess cannot load the environment: {type(error).__name__}: {error}"
        wire.send(Failure((), detail, traceback.format_exc()))
        return None
    return setup


class _Template:
    def __init__(self, wire: Wire, memory_fd: int, setup: WorkerSetup) -> None:
        self.wire, self.memory_fd, self.setup = wire, memory_fd, setup
        self.pids: dict[int, int] = {}  # of the workers
        self.exit_codes: dict[int, int] = {}  # exit codes of workers that have ended
        self.can_fork = _thread_count() == 1
        self.libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self.libc is not None:
            self.libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # no effect on kernels without it
        self.wakeup_read, self.wakeup_write = socket.socketpair()
        for end in (self.wakeup_read, self.wakeup_write):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, _ignore_signal)
        signal.set_wakeup_fd(self.wakeup_write.fileno())
        gc.collect()
        gc.freeze()  # otherwise a garbage collection in a fork would copy all of its pages

    def serve(self) -> None:
        """Start and end workers until the run closes the wire."""
        ready = select.poll()
        for end in (self.wire.read_fd, self.wakeup_read.fileno()):
            ready.register(end, select.POLLIN)
        try:
            self.wire.send(self.can_fork)
            while True:
                ready_fds = {fd for fd, _ in ready.poll()}
                self.reap()
                if self.wire.read_fd in ready_fds:
                    self.handle(*self.wire.receive())
        finally:
            self.kill(list(self.pids))
            _kill_strays()

    def handle(self, request_name: str, *arguments: Any) -> None:
        """Start a worker, or end some and report how they ended."""
        if request_name == "start":
            index, key = arguments
            with socket.socket(fileno=os.dup(self.wire.read_fd)) as socket_:
                _, fds, _, _ = socket.recv_fds(socket_, 1, 3)
            self.start(index, key, fds)
            return
        self.wire.send(self.end(*arguments))

    def start(self, index: int, key: int, fds: list[int]) -> None:
        """Fork a worker; `fds` are for its reading, its writing and its tracebacks."""
        parent_pid, pid = os.getpid(), os.fork()
        if not pid:
            try:
                self.run_worker(index, key, fds, parent_pid)
            finally:
                os._exit(1)
        for fd in fds:
            os.close(fd)
        self.pids[index] = pid

    def run_worker(self, index: int, key: int, fds: list[int], parent_pid: int) -> NoReturn:
        """Run a worker in the fork, in its own process group, which is killed with it."""
        os.setpgid(0, 0)
        if self.libc is not None:
            self.libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent_pid:
                os._exit(1)
        os.environ[WORKER_VARIABLE] = str(os.getpid())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not self.can_fork:
            _exec_interpreter(*fds, self.memory_fd, index, key)
        read_fd, write_fd, traceback_fd = fds
        try:
            worker_main(Wire.of(read_fd, write_fd), self.memory_fd, traceback_fd, self.setup, index, key)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def reap(self) -> None:
        """Record workers that have ended, and kill the processes that they started."""
        with suppress(BlockingIOError):
            self.wakeup_read.recv(4096)
        worker_of_pid = {pid: index for index, pid in self.pids.items()}
        with suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = child
                if pid not in worker_of_pid:  # an orphaned process that a worker started
                    continue
                index = worker_of_pid[pid]
                del self.pids[index]
                self.exit_codes[index] = os.waitstatus_to_exitcode(status)
                _kill_group(pid)
                _kill_strays(pid)

    def end(self, timed_out: Mapping[int, bool]) -> dict[int, int | None]:
        """End workers, late ones (true) at once; returns the exit code of each, `None` if it was killed."""
        request_tracebacks([self.pids[i] for i in timed_out if timed_out[i] and i in self.pids])
        deadline = time.monotonic() + EXIT_SECONDS
        while True:
            self.reap()
            pending_workers = [index for index in timed_out if index in self.pids and not timed_out[index]]
            if not pending_workers or time.monotonic() >= deadline:
                break
            time.sleep(0.001)
        self.kill([index for index in timed_out if index in self.pids])
        return {index: self.exit_codes.pop(index, None) for index in timed_out}

    def kill(self, indices: Sequence[int]) -> None:
        """Kill living workers and the processes that they started."""
        pids = [self.pids.pop(index) for index in indices]
        for pid in pids:
            _kill_group(pid)
        for pid in pids:
            os.waitpid(pid, 0)
            _kill_strays(pid)


def request_tracebacks(pids: Sequence[int]) -> None:
    """Request tracebacks from all hung processes at once, and wait until they are written."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, TRACEBACK_SIGNAL)
    deadline = time.monotonic() + TRACEBACK_SECONDS
    while any(map(_is_writing_traceback, pids)) and time.monotonic() < deadline:
        time.sleep(0.001)


def _is_writing_traceback(pid: int) -> bool:
    """Tell whether `TRACEBACK_SIGNAL` is still pending for a process, or its handler still runs.

    The answer is False for a stopped process, which does not handle signals. Without /proc (macOS) it is
    True.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return sys.platform != "linux"
    fields = dict(line.split(":", 1) for line in lines)
    signal_masks = (int(fields[name], 16) for name in ("SigPnd", "ShdPnd", "SigBlk"))
    return fields["State"].split()[0] != "T" and any(
        each >> (TRACEBACK_SIGNAL - 1) & 1 for each in signal_masks
    )


def _kill_strays(owner: int | None = None) -> None:
    """Kill the processes that the worker of pid `owner` left outside its group; this process adopted them.

    Without an `owner`, kill what all workers left. Systems that list no children do not hand over
    orphans either.
    """
    marker = None if owner is None else f"{WORKER_VARIABLE}={owner}".encode()
    while True:
        strays = [pid for pid in _child_pids() if marker is None or marker in _environ_of(pid)]
        killed = [pid for pid in strays if _kill(pid)]
        if not killed:
            return
        for pid in killed:  # then their children become children of this process
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _kill(pid: int) -> bool:
    """Kill a process; returns whether that was permitted, so that it will end."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _child_pids() -> list[int]:
    """Return the ids of this process's children."""
    try:
        texts = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    except OSError:
        return []
    return [int(pid) for pids in texts for pid in pids.split()]


def _environ_of(pid: int) -> list[bytes]:
    """Return the environment variables with which a process was started."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)  # it may not have its own group yet


def _exec_interpreter(*numbers: int) -> NoReturn:
    """Replace this process with a new interpreter that runs a worker."""
    for fd in numbers[:4]:
        os.set_inheritable(fd, True)
    argument_text = ",".join(map(str, numbers))
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import worker; worker({argument_text})"
    os.execv(sys.executable, [*sys.orig_argv[: sys.orig_argv.index("-c")], "-c", code])


def _thread_count() -> int:
    """Count the threads of this process, including those of libraries; 0 if unknown."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 0
