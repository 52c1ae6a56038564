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
from rlox_cli.desk import SILENT, End
from rlox_cli.errand import Errand
from rlox_cli.signals import HANDLED

TICK = 0.1  # seconds until a signal, an end or the clock is noticed
ASK = 15.0  # seconds between questions to Slurm about jobs that say nothing
LEAVE = 5.0  # seconds for processes to leave in that have nothing left to do
QUEUED = ("PENDING", "UNKNOWN", "REQUEUED")
SHARED = 15.0  # seconds that a file may take to another machine


class Loky:
    """Joblib's processes, each with an executor of its own: a death breaks the executor it is in."""

    grace = 0.0

    def __init__(self, size: int, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._idle: list[Any] = []
        self._size = size
        self._waiting: deque[Errand] = deque()
        self._recalled: list[int] = []
        self._busy: dict[Any, tuple[int, Any]] = {}  # by future: the job and the executor

    def begin(self, errands: Sequence[Errand]) -> None:
        """One a process, the others when one is free."""
        self._waiting.extend(errands)
        self._employ()

    def ended(self) -> list[End]:
        """What is over."""
        from joblib.externals.loky import wait

        found = [End(number) for number in self._recalled]
        self._recalled = []
        for future in wait(list(self._busy), TICK, "FIRST_COMPLETED").done:
            number, executor = self._busy.pop(future)
            error = future.exception()
            if error is None:
                self._idle.append(executor)
            else:
                executor.shutdown(wait=False, kill_workers=True)
            found.append(End(number, SILENT if error is None else _loky_words(error)))
        self._employ()
        return found

    def recall(self) -> None:
        """The others stay undone; ended() has no more of them to tell than that."""
        self._recalled += [errand.number for errand in self._waiting]
        self._waiting.clear()

    def close(self, left: Collection[int]) -> None:
        """End the processes."""
        for _, executor in self._busy.values():
            executor.shutdown(wait=True, kill_workers=True)

    def _employ(self) -> None:
        from joblib.externals import loky

        library: Any = loky
        while self._waiting and len(self._busy) < self._size:
            with _signals_wait():
                executor = (
                    self._idle.pop()
                    if self._idle
                    else library.ProcessPoolExecutor(max_workers=1, env=self._environment)
                )
                errand = self._waiting.popleft()
                self._busy[executor.submit(errand)] = (errand.number, executor)
        while not self._waiting and self._idle:  # it would outlive a sweep that is killed
            self._idle.pop().shutdown(wait=False)


class Ray:
    """A task of Ray's for each job; Ray knows how many fit."""

    grace = 0.0

    def __init__(self, init: Mapping[str, Any], remote: Mapping[str, Any]) -> None:
        self._init, self._remote = dict(init), {"max_retries": 0, **remote}
        self._open: dict[Any, int] = {}
        self._ours = False

    def begin(self, errands: Sequence[Errand]) -> None:
        """Hand all of them to Ray."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        import ray

        try:
            if not ray.is_initialized():
                self._start(ray)
            call = ray.remote(**self._remote)(_perform)
            self._open = {call.remote(errand): errand.number for errand in errands}
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise RloxError(f"Ray cannot begin: {_first_line(error)}") from error

    def _start(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "include_dashboard": False, "logging_level": "ERROR"}
        if self._init.get("address") is not None:
            quiet.pop("include_dashboard")  # somebody else's cluster has one or not
        with _signals_wait():
            ray.init(**{**quiet, **self._init})
        self._ours = True

    def ended(self) -> list[End]:
        """What is over."""
        import ray
        from ray.exceptions import RayError, TaskCancelledError

        over, _ = ray.wait(list(self._open), num_returns=1, timeout=TICK)
        found = []
        for task in over:
            how = SILENT
            try:
                ray.get(task)
            except TaskCancelledError:
                pass
            except RayError as error:
                how = _first_line(error)
            found.append(End(self._open.pop(task), how))
        return found

    def recall(self) -> None:
        """Those that have begun are asked elsewhere; what has not begun sees that it shall not."""

    def close(self, left: Collection[int]) -> None:
        """End what was begun here."""
        if self._ours:
            import ray

            ray.shutdown()


class Submitit:
    """A job of submitit's for each: a process of this machine, or what Slurm has for it."""

    def __init__(self, executor: Any, size: int, slurm: bool) -> None:
        self._executor, self._size, self._slurm = executor, size, slurm
        self.grace = SHARED if slurm else 0.0
        self._waiting: deque[Errand] = deque()
        self._recalled: list[int] = []
        self._open: dict[int, Any] = {}
        self._asked = time.monotonic()

    def begin(self, errands: Sequence[Errand]) -> None:
        """Submit all of them to Slurm, or here as many as fit."""
        self._waiting.extend(errands)
        self._submit()

    def ended(self) -> list[End]:
        """What is over."""
        time.sleep(TICK)
        ask = self._slurm and time.monotonic() - self._asked >= ASK
        if ask:
            self._asked = time.monotonic()
        found = [End(number) for number in self._recalled]
        self._recalled = []
        for number, job in list(self._open.items()):
            if job.done(force_check=ask):
                ask = False  # one question is about all
                del self._open[number]
                found.append(End(number, _state(job)))
        self._submit()
        return found

    def recall(self) -> None:
        """Take back what waits, here and in Slurm's queue."""
        self._recalled += [errand.number for errand in self._waiting]
        self._waiting.clear()
        if self._slurm:
            self._cancel([job for job in self._open.values() if job.state.upper() in QUEUED])

    def close(self, left: Collection[int]) -> None:
        """Take back from Slurm what nobody waits for; processes of this machine leave by themselves."""
        if self._slurm:
            self._cancel([job for number, job in self._open.items() if number in left])
            return
        due = time.monotonic() + LEAVE
        while any(not job.done() for job in self._open.values()) and time.monotonic() < due:
            time.sleep(TICK)

    def _cancel(self, jobs: Sequence[Any]) -> None:
        for job in jobs:
            with suppress(OSError, ValueError, RuntimeError):
                job.cancel(check=False)

    def _submit(self) -> None:
        free = len(self._waiting) if self._slurm else self._size - len(self._open)
        batch = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
        if not batch:
            return
        try:
            with _signals_wait(), self._executor.batch():
                jobs = [self._executor.submit(errand) for errand in batch]
        except Exception as error:  # submitit has many
            raise RloxError(f"submitit cannot submit: {_first_line(error)}") from error
        self._open |= {errand.number: job for errand, job in zip(batch, jobs, strict=True)}


def _perform(errand: Errand) -> None:
    errand()


@contextmanager
def _signals_wait() -> Iterator[None]:
    """A process begun meanwhile inherits that signals wait: the sweep tells jobs to stop, nobody else."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _state(job: Any) -> str:
    state = str(job.state).upper()
    how = SILENT if state in ("FINISHED", "COMPLETED") else f"its process ended as {state}"
    return f"{how}; {job.paths.stderr}"


def _loky_words(error: BaseException) -> str:
    codes = str(error).rpartition("{")[2].rpartition("}")[0]
    return f"its process was ended by {codes.partition('(')[0]}" if codes else _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return next((line.strip() for line in lines if line.strip()), type(error).__name__)
