"""The process that workers are forked from: it has imported what they need, and ends them.

A fork of it takes milliseconds, where a fresh interpreter takes half a second for every worker that is
replaced. Unlike the run's process it has one thread, so that its forks have whole locks; where what it
imported started others, a worker is a fresh interpreter after all. It outlives no run: when the other
end of its line is closed, by whatever death, it kills its workers with everything that they started; on
Linux also what has left their process groups, which is handed to it when its parent ends.
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

from rlox.envs.workers.child import TELL, live
from rlox.envs.workers.job import Failure, Job
from rlox.envs.workers.registered import register
from rlox.envs.workers.wire import Gone, Wire

__all__ = ["main", "request_tracebacks", "worker"]

EXIT_SECONDS = 2.0  # for a process whose line is closed to end by itself
TRACEBACK_SECONDS = 1.0  # at most, for a hung worker to write its traceback
CALLED = "RLOX_WORKER"  # the variable that tells whose a process is, whatever became of its parents
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(line: int, memory: int) -> None:
    """Serve the pool on the other end of `line`; `memory` is the file that workers share with it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        # the run decides when to end; no SIG_IGN, which what environments start would inherit
        signal.signal(number, _unmoved)
    wire = Wire.of(line, line)
    with suppress(Gone):
        job = _job(wire)
        if job is not None:
            _Template(wire, memory, job).serve()


def worker(reads: int, writes: int, notes: int, memory: int, index: int, key: int) -> None:
    """A worker in an interpreter of its own; its job comes first."""
    wire = Wire.of(reads, writes)
    job = _job(wire)
    if job is not None:
        live(wire, memory, notes, job, index, key)


def _unmoved(number: int, frame: Any) -> None:
    """Hear a signal and go on."""


def _job(wire: Wire) -> Job | None:
    """What to work at; a failure to import what it needs is told instead."""
    try:
        job: Job = wire.receive()
        register(job.specs.fn)
    except Gone:
        raise
    except (Exception, SystemExit) as error:
        said = f"a subprocess cannot load the environment: {type(error).__name__}: {error}"
        wire.send(Failure((), said, traceback.format_exc()))
        return None
    return job


class _Template:
    def __init__(self, wire: Wire, memory: int, job: Job) -> None:
        self.wire, self.memory, self.job = wire, memory, job
        self.pids: dict[int, int] = {}  # of the workers
        self.ended: dict[int, int] = {}  # how those ended that are no more
        self.forks = _threads() == 1
        self.libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        if self.libc is not None:
            self.libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # in vain on a kernel without it
        self.woken, self.wakes = socket.socketpair()
        for end in (self.woken, self.wakes):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, _unmoved)
        signal.set_wakeup_fd(self.wakes.fileno())
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page of it

    def serve(self) -> None:
        """Start and end workers, until nobody asks any more."""
        ready = select.poll()
        for end in (self.wire.reads, self.woken.fileno()):
            ready.register(end, select.POLLIN)
        try:
            self.wire.send(self.forks)
            while True:
                heard = {fd for fd, _ in ready.poll()}
                self.reap()
                if self.wire.reads in heard:
                    self.do(*self.wire.receive())
        finally:
            self.kill(list(self.pids))
            _kill_strays()

    def do(self, what: str, *given: Any) -> None:
        """Start a worker, or end some and say how they ended."""
        if what == "start":
            index, key = given
            with socket.socket(fileno=os.dup(self.wire.reads)) as line:
                _, fds, _, _ = socket.recv_fds(line, 1, 3)
            self.start(index, key, fds)
            return
        self.wire.send(self.end(*given))

    def start(self, index: int, key: int, fds: list[int]) -> None:
        """Fork a worker; `fds` are what it reads from, writes to, and where it notes a crash."""
        above, pid = os.getpid(), os.fork()
        if not pid:
            try:
                self.become(index, key, fds, above)
            finally:
                os._exit(1)
        for fd in fds:
            os.close(fd)
        self.pids[index] = pid

    def become(self, index: int, key: int, fds: list[int], above: int) -> NoReturn:
        """In the fork: be a worker, in a process group that is killed with it."""
        os.setpgid(0, 0)
        if self.libc is not None:
            self.libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != above:
                os._exit(1)
        os.environ[CALLED] = str(os.getpid())
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if not self.forks:
            _interpreter(*fds, self.memory, index, key)
        reads, writes, notes = fds
        try:
            live(Wire.of(reads, writes), self.memory, notes, self.job, index, key)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def reap(self) -> None:
        """Take note of workers that have ended, and end what they started."""
        with suppress(BlockingIOError):
            self.woken.recv(4096)
        found = {pid: index for index, pid in self.pids.items()}
        with suppress(ChildProcessError):
            while (child := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = child
                if (
                    pid not in found
                ):  # what a worker started, and its parent has not lived to see end
                    continue
                index = found[pid]
                del self.pids[index]
                self.ended[index] = os.waitstatus_to_exitcode(status)
                _kill_group(pid)
                _kill_strays(pid)

    def end(self, workers: Mapping[int, bool]) -> dict[int, int | None]:
        """End workers, late ones (true) at once; how each ended by itself, `None` if it was killed."""
        request_tracebacks([self.pids[i] for i in workers if workers[i] and i in self.pids])
        deadline = time.monotonic() + EXIT_SECONDS
        while True:
            self.reap()
            waited = [index for index in workers if index in self.pids and not workers[index]]
            if not waited or time.monotonic() >= deadline:
                break
            time.sleep(0.001)
        self.kill([index for index in workers if index in self.pids])
        return {index: self.ended.pop(index, None) for index in workers}

    def kill(self, indices: Sequence[int]) -> None:
        """Kill workers that live, and what they have started."""
        pids = [self.pids.pop(index) for index in indices]
        for pid in pids:
            _kill_group(pid)
        for pid in pids:
            os.waitpid(pid, 0)
            _kill_strays(pid)


def request_tracebacks(pids: Sequence[int]) -> None:
    """Ask hung processes for their tracebacks, all at the same time, and wait until they are written."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, TELL)
    deadline = time.monotonic() + TRACEBACK_SECONDS
    while any(map(_is_writing_traceback, pids)) and time.monotonic() < deadline:
        time.sleep(0.001)


def _is_writing_traceback(pid: int) -> bool:
    """Whether a process has yet to take the signal `TELL` or to end its handler.

    One that is stopped takes none. True where nobody knows (macOS).
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return sys.platform != "linux"
    said = dict(line.split(":", 1) for line in lines)
    sets = (int(said[name], 16) for name in ("SigPnd", "ShdPnd", "SigBlk"))
    return said["State"].split()[0] != "T" and any(each >> (TELL - 1) & 1 for each in sets)


def _kill_strays(owner: int | None = None) -> None:
    """Kill what a worker that is no more has started elsewhere, which is this process's child now.

    Without an `owner` all of it. Where children are not told, there are none of others either.
    """
    called = None if owner is None else f"{CALLED}={owner}".encode()
    while True:
        strays = [pid for pid in _children() if called is None or called in _variables(pid)]
        killed = [pid for pid in strays if _killed(pid)]
        if not killed:
            return
        for pid in killed:  # whose own children are handed over in turn
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _killed(pid: int) -> bool:
    """Kill a process; whether that was allowed, so that it will end."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _children() -> list[int]:
    """The processes whose parent this one is."""
    try:
        told = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    except OSError:
        return []
    return [int(pid) for pids in told for pid in pids.split()]


def _variables(pid: int) -> list[bytes]:
    """The environment variables that a process was started with."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)  # one that has no group of its own yet


def _interpreter(*numbers: int) -> NoReturn:
    """Go on as a fresh interpreter."""
    for fd in numbers[:4]:
        os.set_inheritable(fd, True)
    given = ",".join(map(str, numbers))
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import worker; worker({given})"
    os.execv(sys.executable, [*sys.orig_argv[: sys.orig_argv.index("-c")], "-c", code])


def _threads() -> int:
    """Threads of this process, those of libraries too; 0 where nobody knows."""
    try:
        return sum(1 for _ in Path("/proc/self/task").iterdir())
    except OSError:
        return 0
