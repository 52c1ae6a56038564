"""Libraries that have the jobs of a sweep done: joblib's processes, Ray, submitit.

Each is asked for one process a job and for nothing else: what becomes of a job is in the mailbox. Hydra's
launchers for them hand out all jobs as one: the first that dies takes what is known of all the others.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rlox.errors import RloxError
from rlox_cli.remote_job import RemoteJob
from rlox_cli.remote_job_runner import NO_EXIT_MESSAGE, ProcessExit
from rlox_cli.signals import HANDLED_SIGNALS

POLL_SECONDS = 0.1  # seconds until a signal, an end or the clock is noticed
SLURM_POLL_SECONDS = 15.0  # seconds between questions to Slurm about jobs that say nothing
EXIT_SECONDS = 5.0  # seconds for processes to leave in that have nothing left to do
QUEUED_STATES = ("PENDING", "UNKNOWN", "REQUEUED")
SHARED_DISK_SECONDS = 15.0  # seconds that a file may take to another machine


class LokyExecutor:
    """Joblib's processes, each with an executor of its own: a death breaks the executor it is in."""

    grace = 0.0

    def __init__(self, size: int, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._idle: list[Any] = []
        self._size = size
        self._pending: deque[RemoteJob] = deque()
        self._cancelled: list[int] = []
        self._busy: dict[Any, tuple[int, Any]] = {}  # by future: the job and the executor

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """One a process, the others when one is free."""
        self._pending.extend(jobs)
        self._assign()

    def poll_exits(self) -> list[ProcessExit]:
        """What is over."""
        from joblib.externals.loky import wait

        exits = [ProcessExit(number) for number in self._cancelled]
        self._cancelled = []
        for future in wait(list(self._busy), POLL_SECONDS, "FIRST_COMPLETED").done:
            number, executor = self._busy.pop(future)
            error = future.exception()
            if error is None:
                self._idle.append(executor)
            else:
                executor.shutdown(wait=False, kill_workers=True)
            exits.append(ProcessExit(number, NO_EXIT_MESSAGE if error is None else _loky_reason(error)))
        self._assign()
        return exits

    def cancel_pending(self) -> None:
        """The others stay undone; ended() has no more of them to tell than that."""
        self._cancelled += [job.number for job in self._pending]
        self._pending.clear()

    def close(self, unfinished: Collection[int]) -> None:
        """End the processes."""
        for _, executor in self._busy.values():
            executor.shutdown(wait=True, kill_workers=True)

    def _assign(self) -> None:
        from joblib.externals import loky

        library: Any = loky
        while self._pending and len(self._busy) < self._size:
            with _block_signals():
                executor = (
                    self._idle.pop()
                    if self._idle
                    else library.ProcessPoolExecutor(max_workers=1, env=self._environment)
                )
                job = self._pending.popleft()
                self._busy[executor.submit(job)] = (job.number, executor)
        while not self._pending and self._idle:  # it would outlive a sweep that is killed
            self._idle.pop().shutdown(wait=False)


class RayExecutor:
    """A task of Ray's for each job; Ray knows how many fit."""

    grace = 0.0

    def __init__(self, init: Mapping[str, Any], remote: Mapping[str, Any]) -> None:
        self._init, self._remote = dict(init), {"max_retries": 0, **remote}
        self._unfinished: dict[Any, int] = {}
        self._owns_ray = False

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """Hand all of them to Ray."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        import ray

        try:
            if not ray.is_initialized():
                self._start_ray(ray)
            call = ray.remote(**self._remote)(_run_job)
            self._unfinished = {call.remote(job): job.number for job in jobs}
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise RloxError(f"Ray cannot begin: {_first_line(error)}") from error

    def _start_ray(self, ray: Any) -> None:
        defaults = {"log_to_driver": False, "include_dashboard": False, "logging_level": "ERROR"}
        if self._init.get("address") is not None:
            defaults.pop("include_dashboard")  # somebody else's cluster has one or not
        with _block_signals():
            ray.init(**{**defaults, **self._init})
        self._owns_ray = True

    def poll_exits(self) -> list[ProcessExit]:
        """What is over."""
        import ray
        from ray.exceptions import RayError, TaskCancelledError

        finished, _ = ray.wait(list(self._unfinished), num_returns=1, timeout=POLL_SECONDS)
        exits = []
        for task in finished:
            reason = NO_EXIT_MESSAGE
            try:
                ray.get(task)
            except TaskCancelledError:
                pass
            except RayError as error:
                reason = _first_line(error)
            exits.append(ProcessExit(self._unfinished.pop(task), reason))
        return exits

    def cancel_pending(self) -> None:
        """Those that have begun are asked elsewhere; what has not begun sees that it shall not."""

    def close(self, unfinished: Collection[int]) -> None:
        """End what was begun here."""
        if self._owns_ray:
            import ray

            ray.shutdown()


class SubmititExecutor:
    """A job of submitit's for each: a process of this machine, or what Slurm has for it."""

    def __init__(self, executor: Any, size: int, is_slurm: bool) -> None:
        self._executor, self._size, self._is_slurm = executor, size, is_slurm
        self.grace = SHARED_DISK_SECONDS if is_slurm else 0.0
        self._pending: deque[RemoteJob] = deque()
        self._cancelled: list[int] = []
        self._unfinished: dict[int, Any] = {}
        self._last_query = time.monotonic()

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """Submit all of them to Slurm, or here as many as fit."""
        self._pending.extend(jobs)
        self._submit()

    def poll_exits(self) -> list[ProcessExit]:
        """What is over."""
        time.sleep(POLL_SECONDS)
        should_query = self._is_slurm and time.monotonic() - self._last_query >= SLURM_POLL_SECONDS
        if should_query:
            self._last_query = time.monotonic()
        exits = [ProcessExit(number) for number in self._cancelled]
        self._cancelled = []
        for number, job in list(self._unfinished.items()):
            if job.done(force_check=should_query):
                should_query = False  # one question is about all
                del self._unfinished[number]
                exits.append(ProcessExit(number, _exit_reason(job)))
        self._submit()
        return exits

    def cancel_pending(self) -> None:
        """Take back what waits, here and in Slurm's queue."""
        self._cancelled += [remote_job.number for remote_job in self._pending]
        self._pending.clear()
        if self._is_slurm:
            self._cancel([job for job in self._unfinished.values() if job.state.upper() in QUEUED_STATES])

    def close(self, unfinished: Collection[int]) -> None:
        """Take back from Slurm what nobody waits for; processes of this machine leave by themselves."""
        if self._is_slurm:
            self._cancel([job for number, job in self._unfinished.items() if number in unfinished])
            return
        deadline = time.monotonic() + EXIT_SECONDS
        while any(not job.done() for job in self._unfinished.values()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _cancel(self, jobs: Sequence[Any]) -> None:
        for job in jobs:
            with suppress(OSError, ValueError, RuntimeError):
                job.cancel(check=False)

    def _submit(self) -> None:
        slots = len(self._pending) if self._is_slurm else self._size - len(self._unfinished)
        batch = [self._pending.popleft() for _ in range(min(slots, len(self._pending)))]
        if not batch:
            return
        try:
            with _block_signals(), self._executor.batch():
                jobs = [self._executor.submit(remote_job) for remote_job in batch]
        except Exception as error:  # submitit has many
            raise RloxError(f"submitit cannot submit: {_first_line(error)}") from error
        self._unfinished |= {remote_job.number: job for remote_job, job in zip(batch, jobs, strict=True)}


def _run_job(job: RemoteJob) -> None:
    job()


@contextmanager
def _block_signals() -> Iterator[None]:
    """A process begun meanwhile inherits that signals wait: the sweep tells jobs to stop, nobody else."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_reason(job: Any) -> str:
    state = str(job.state).upper()
    reason = NO_EXIT_MESSAGE if state in ("FINISHED", "COMPLETED") else f"its process ended as {state}"
    return f"{reason}; {job.paths.stderr}"


def _loky_reason(error: BaseException) -> str:
    codes = str(error).rpartition("{")[2].rpartition("}")[0]
    return f"its process was ended by {codes.partition('(')[0]}" if codes else _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)
