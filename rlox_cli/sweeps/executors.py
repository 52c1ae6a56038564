"""Executors of a sweep's jobs: joblib's processes, Ray and submitit.

Each library only starts one process per job; the outcome of a job is read from the sweep's event folder.
Hydra's own launchers for these libraries submit all jobs together: if one job dies, the outcomes of all
others are lost.
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
from rlox_cli.runs.signals import HANDLED_SIGNALS
from rlox_cli.sweeps.remote_job import RemoteJob
from rlox_cli.sweeps.remote_job_runner import NO_OUTCOME_MESSAGE, ProcessExit

POLL_SECONDS = 0.1  # seconds until a signal, an exit or a timeout is noticed
SLURM_POLL_SECONDS = 15.0  # seconds between queries to Slurm about silent jobs
EXIT_SECONDS = 5.0  # seconds that processes without work have to exit
QUEUED_STATES = ("PENDING", "UNKNOWN", "REQUEUED")
SHARED_DISK_SECONDS = 15.0  # seconds until a file may be visible on another machine


class LokyExecutor:
    """Joblib's processes, each in an executor of its own: a process that dies breaks its executor."""

    grace_seconds = 0.0

    def __init__(self, size: int, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._idle: list[Any] = []
        self._size = size
        self._pending: deque[RemoteJob] = deque()
        self._cancelled: list[int] = []
        self._busy: dict[Any, tuple[int, Any]] = {}  # future -> (job number, executor)

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """Start one job per process; the others wait for a free process."""
        self._pending.extend(jobs)
        self._assign()

    def poll_exits(self) -> list[ProcessExit]:
        """Return the exits since the last call."""
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
            exits.append(ProcessExit(number, NO_OUTCOME_MESSAGE if error is None else _loky_reason(error)))
        self._assign()
        return exits

    def cancel_pending(self) -> None:
        """Cancel the waiting jobs; `poll_exits()` returns an exit for each."""
        self._cancelled += [job.number for job in self._pending]
        self._pending.clear()

    def close(self, unfinished: Collection[int]) -> None:
        """End the busy processes."""
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
        while not self._pending and self._idle:  # an idle process would outlive a killed sweep
            self._idle.pop().shutdown(wait=False)


class RayExecutor:
    """One Ray task per job; Ray decides how many run at once."""

    grace_seconds = 0.0

    def __init__(self, init: Mapping[str, Any], remote: Mapping[str, Any]) -> None:
        self._init, self._remote = dict(init), {"max_retries": 0, **remote}
        self._unfinished: dict[Any, int] = {}
        self._owns_ray = False

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """Submit all jobs to Ray."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
        import ray

        try:
            if not ray.is_initialized():
                self._start_ray(ray)
            call = ray.remote(**self._remote)(_run_job)
            self._unfinished = {call.remote(job): job.number for job in jobs}
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise RloxError(f"Ray cannot start: {_first_line(error)}") from error

    def _start_ray(self, ray: Any) -> None:
        defaults = {"log_to_driver": False, "include_dashboard": False, "logging_level": "ERROR"}
        if self._init.get("address") is not None:
            defaults.pop("include_dashboard")  # an existing cluster decides that itself
        with _block_signals():
            ray.init(**{**defaults, **self._init})
        self._owns_ray = True

    def poll_exits(self) -> list[ProcessExit]:
        """Return the exits since the last call."""
        import ray
        from ray.exceptions import RayError, TaskCancelledError

        finished, _ = ray.wait(list(self._unfinished), num_returns=1, timeout=POLL_SECONDS)
        exits = []
        for task in finished:
            reason = NO_OUTCOME_MESSAGE
            try:
                ray.get(task)
            except TaskCancelledError:
                pass
            except RayError as error:
                reason = _first_line(error)
            exits.append(ProcessExit(self._unfinished.pop(task), reason))
        return exits

    def cancel_pending(self) -> None:
        """Do nothing: the event folder has the stop request, which waiting jobs read too."""

    def close(self, unfinished: Collection[int]) -> None:
        """Shut Ray down if this executor started it."""
        if self._owns_ray:
            import ray

            ray.shutdown()


class SubmititExecutor:
    """One submitit job per job of the sweep: a local process or a Slurm job."""

    def __init__(self, executor: Any, size: int, is_slurm: bool) -> None:
        self._executor, self._size, self._is_slurm = executor, size, is_slurm
        self.grace_seconds = SHARED_DISK_SECONDS if is_slurm else 0.0
        self._pending: deque[RemoteJob] = deque()
        self._cancelled: list[int] = []
        self._unfinished: dict[int, Any] = {}
        self._last_query = time.monotonic()

    def submit(self, jobs: Sequence[RemoteJob]) -> None:
        """Submit all jobs to Slurm, or start as many local processes as fit."""
        self._pending.extend(jobs)
        self._submit()

    def poll_exits(self) -> list[ProcessExit]:
        """Return the exits since the last call."""
        time.sleep(POLL_SECONDS)
        should_query = self._is_slurm and time.monotonic() - self._last_query >= SLURM_POLL_SECONDS
        if should_query:
            self._last_query = time.monotonic()
        exits = [ProcessExit(number) for number in self._cancelled]
        self._cancelled = []
        for number, job in list(self._unfinished.items()):
            if job.done(force_check=should_query):
                should_query = False  # one query covers all jobs
                del self._unfinished[number]
                exits.append(ProcessExit(number, _exit_reason(job)))
        self._submit()
        return exits

    def cancel_pending(self) -> None:
        """Cancel the waiting jobs, here and in Slurm's queue."""
        self._cancelled += [remote_job.number for remote_job in self._pending]
        self._pending.clear()
        if self._is_slurm:
            self._cancel([job for job in self._unfinished.values() if job.state.upper() in QUEUED_STATES])

    def close(self, unfinished: Collection[int]) -> None:
        """Cancel the `unfinished` jobs in Slurm; local processes exit by themselves."""
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
        except Exception as error:  # submitit raises many types
            raise RloxError(f"submitit cannot submit: {_first_line(error)}") from error
        self._unfinished |= {remote_job.number: job for remote_job, job in zip(batch, jobs, strict=True)}


def _run_job(job: RemoteJob) -> None:
    job()


@contextmanager
def _block_signals() -> Iterator[None]:
    """Block signals; a process started meanwhile inherits this, so that only the sweep stops jobs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_reason(job: Any) -> str:
    state = str(job.state).upper()
    reason = NO_OUTCOME_MESSAGE if state in ("FINISHED", "COMPLETED") else f"its process ended as {state}"
    return f"{reason}; {job.paths.stderr}"


def _loky_reason(error: BaseException) -> str:
    codes = str(error).rpartition("{")[2].rpartition("}")[0]
    return f"its process was ended by {codes.partition('(')[0]}" if codes else _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)
