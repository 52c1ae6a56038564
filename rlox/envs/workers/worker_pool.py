"""The workers of a pool: requests go to all at once, and dead or late workers are reported as failures."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import gymnasium as gym

from rlox._core import stream_seed
from rlox.envs.mujoco_log import log_warning
from rlox.envs.workers.messages import Failure, StartReply, StepReply, WorkerSetup
from rlox.envs.workers.spawner import WorkerSpawner
from rlox.envs.workers.wire import PeerClosed, ReplyTimeout, Wire, flush_all
from rlox.errors import EnvError

__all__ = ["EnvWorkerPool", "cpu_count", "envs_per_worker"]

START_SECONDS = 60.0  # seconds for imports and constructors, unless `step_timeout` is longer

Spaces = tuple[gym.Space[Any], gym.Space[Any]]


class EnvWorkerPool:
    """Numbered worker processes; a dead or late one is ended, and a `Failure` replaces its reply."""

    def __init__(self, setup: WorkerSetup, seed: int, step_timeout: float) -> None:
        self.setup, self._seed = setup, seed
        self._timeout = step_timeout
        self._start_timeout = max(step_timeout, START_SECONDS)
        self._spawner = WorkerSpawner(setup, self._start_timeout)
        self._finalizer = weakref.finalize(self, self._spawner.close)
        self._spawn_count = 0
        self._wires: dict[int, Wire] = {}  # of living workers
        self._failures: dict[int, Failure] = {}  # of workers that ended and are not replaced yet
        self._unread_replies: list[int] = []  # workers with unread replies, one entry per reply
        self._workers = range(-(-setup.n_envs // setup.worker_envs))
        self._step_request = dict.fromkeys(self._workers, (None,))
        self.spaces: Spaces | None = None  # of observations and actions; None before any environment exists

    @property
    def memory_fd(self) -> int:
        """File descriptor of the memory that the workers share."""
        return self._spawner.memory_fd

    def start(self) -> list[StartReply]:
        """Start all workers with their environments."""
        for worker in self._workers:
            self._spawn(worker)
        requests = {worker: ("make", self.setup.envs_of(worker)) for worker in self._workers}
        replies = self._request("__init__", requests, self._start_timeout)
        reports = [
            StartReply(None, False, 1, [each]) if isinstance(each, Failure) else each
            for each in replies.values()
        ]
        for worker, report in zip(replies, reports, strict=True):
            self.spaces = self.spaces or report.spaces
            self._require_spaces(worker, report)
        return reports

    def step(self) -> dict[int, StepReply | Failure]:
        """Step all environments; the result leaves out workers whose results are all in shared memory."""
        self._send(self._step_request, self._timeout)
        return self._receive("step", self._workers, self._timeout)

    def step_some(self, actions: Mapping[int, Any]) -> dict[int, StepReply | Failure]:
        """Step some environments, with actions in the environment's form; no episode begins automatically."""
        return self._request("step", self._group_by_worker("play", actions), self._timeout)

    def reset(self, seeds: Mapping[int, int]) -> dict[int, StepReply | Failure]:
        """Begin episodes, with seeds by environment."""
        return self._request("reset", self._group_by_worker("begin", seeds), self._timeout)

    def recreate(self, seeds: Mapping[int, int]) -> tuple[list[Failure], dict[int, StepReply | Failure]]:
        """Replace failed environments, in new processes if theirs are dead, and begin episodes.

        Returns the failures of making them, and the replies to the resets of the others. The request to reset
        is sent together with the request to make.
        """
        requests: dict[int, Any] = {}
        for i, seed in seeds.items():
            make, begin = requests.setdefault(self._worker_of(i), (("make", []), ("begin", {})))
            make[1].append(i)
            begin[1][i] = seed
        for worker in requests.keys() - self._wires.keys():
            self._spawn(worker)
        self._send(requests, self._start_timeout)
        failures, ready_workers = [], []
        for worker, reply in self._receive("__init__", requests, self._start_timeout).items():
            if isinstance(reply, Failure):
                failures.append(reply)
                continue
            failures += reply.failures
            ready_workers.append(worker)
            self._require_spaces(worker, reply)
        return failures, self._receive("reset", ready_workers, self._timeout)

    def save(self) -> tuple[list[Any], list[Failure]]:
        """Return the states of all environments, in order, and the failures of dead or late workers."""
        requests = {worker: ("save", self.setup.envs_of(worker)) for worker in self._workers}
        replies = self._request("save_state", requests, self._start_timeout)
        failures = [replies.pop(worker) for worker in list(replies) if worker not in self._wires]
        states = [state for each in self._raise_failures(replies).values() for state in each]
        return states, failures

    def restore(self, states: Sequence[Any]) -> None:
        """Restore all environments."""
        requests = {}
        for worker in self._workers:
            requests[worker] = "restore", {i: states[i] for i in self.setup.envs_of(worker)}
        self._raise_failures(self._request("load_state", requests, self._start_timeout))

    def close(self) -> None:
        """End all processes."""
        self._finalizer()

    def _spawn(self, worker: int) -> None:
        key = stream_seed(self._seed, f"worker-{self._spawn_count}", worker)
        self._spawn_count += 1
        self._failures.pop(worker, None)
        self._wires[worker] = self._spawner.start(worker, key)

    def _group_by_worker(self, request_name: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Group arguments by worker into one request each."""
        requests: dict[int, Any] = {}
        for i, each in arguments.items():
            requests.setdefault(self._worker_of(i), (request_name, {}))[1][i] = each
        return requests

    def _request(self, call: str, requests: Mapping[int, Any], seconds: float) -> dict[int, Any]:
        """Send one request to each of these workers, and wait for all replies."""
        deadline = self._send({worker: (request,) for worker, request in requests.items()}, seconds)
        return self._receive(call, requests, seconds, deadline)

    def _send(self, requests: Mapping[int, Sequence[Any]], seconds: float) -> float:
        """Send requests to workers in order, `None` for a step; returns the deadline of the replies.

        A worker that is gone, or that does not read, is reported by `_receive`.
        """
        if not self._finalizer.alive:
            raise EnvError(f"{self.setup.name} is closed")
        self._drain_replies()
        for worker, worker_requests in requests.items():
            wire = self._wires.get(worker)
            if wire is None:
                continue
            for request in worker_requests:
                self._unread_replies.append(worker)
                with suppress(PeerClosed):
                    wire.signal_step() if request is None else wire.send_nowait(request)
        deadline = time.monotonic() + seconds
        if any(wire.has_unsent for wire in self._wires.values()):
            flush_all(self._wires.values(), deadline)
        return deadline

    def _receive(
        self, call: str, workers: Iterable[int], seconds: float, deadline: float | None = None
    ) -> dict[int, Any]:
        """Receive the next reply of each worker: an object, or a `Failure` for a dead or late worker.

        Workers that only confirm a step are left out. Without a `deadline`, all have `seconds` from now on.
        """
        deadline = time.monotonic() + seconds if deadline is None else deadline
        replies: dict[int, Any] = {}
        timed_out: dict[int, bool] = {}
        for worker in workers:
            wire = self._wires.get(worker)
            if wire is None:  # ended in an earlier call whose failure was not handled
                replies[worker] = self._failures[worker]
                continue
            try:
                reply = wire.receive(deadline)
                self._unread_replies.remove(worker)
            except (PeerClosed, ReplyTimeout) as error:
                timed_out[worker] = isinstance(error, ReplyTimeout)
                continue
            if isinstance(reply, StartReply | StepReply):
                for text in reply.warnings:
                    log_warning(text)
            if reply is not None:
                replies[worker] = reply
        return replies | self._terminate(timed_out, call, seconds) if timed_out else replies

    def _drain_replies(self) -> None:
        """Read unread replies: a signal may have interrupted the call that made the requests."""
        if not self._unread_replies:
            return
        deadline = time.monotonic() + self._timeout
        flush_all(self._wires.values(), deadline)  # the rest of that call's messages
        while self._unread_replies:
            wire = self._wires[self._unread_replies.pop()]
            try:
                wire.receive(deadline)
            except PeerClosed:
                continue  # the next request will report it
            except ReplyTimeout:
                wire.close_write_end()

    def _terminate(self, timed_out: Mapping[int, bool], call: str, seconds: float) -> dict[int, Failure]:
        """End workers that died in a call, or did not answer within `seconds` (true); returns failures."""
        for worker in timed_out:
            del self._wires[worker]
            envs = tuple(self.setup.envs_of(worker))
            copies = f"copies {envs[0]} to {envs[-1]}" if len(envs) > 1 else f"copy {envs[0]}"
            self._failures[worker] = Failure(envs, f"{self.setup.name} ({copies}): a subprocess")
        self._unread_replies = [worker for worker in self._unread_replies if worker not in timed_out]
        for worker, (exit_text, traceback_text) in self._spawner.end(timed_out).items():
            envs, detail, *_ = self._failures[worker]
            detail += (
                _timeout_message(call, seconds) if timed_out[worker] else f" died during {call}: {exit_text}"
            )
            self._failures[worker] = Failure(envs, detail, traceback_text)
        return {worker: self._failures[worker] for worker in timed_out}

    def _worker_of(self, env: int) -> int:
        return env // self.setup.worker_envs

    def _require_spaces(self, worker: int, report: StartReply) -> None:
        """Check that all workers have the same spaces, for which the memory is laid out."""
        if report.spaces is not None and report.spaces != self.spaces:
            self.close()
            raise EnvError(
                f"{self.setup.name} has the spaces {report.spaces} in worker {worker}, expected those of "
                f"the first copies, {self.spaces}"
            )

    def _raise_failures(self, replies: Mapping[int, Any]) -> Mapping[int, Any]:
        for reply in replies.values():
            if isinstance(reply, Failure):
                raise EnvError(f"{reply.detail}\n{reply.trace}")
        return replies


def _timeout_message(call: str, seconds: float) -> str:
    """Describe a worker that did not answer in time."""
    remedy = "raise env.step_timeout, or look for a hang in the environment"
    return f" did not answer {call} within {seconds:g} s and was killed ({remedy})"


def envs_per_worker(n_envs: int) -> int:
    """Default number of environments per worker: as many workers as CPUs."""
    return -(-n_envs // cpu_count())


def cpu_count() -> int:
    """Return the number of CPUs that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
