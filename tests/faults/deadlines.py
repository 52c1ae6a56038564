"""Makes deadlines expire at once for hung workers only, on a machine of any load."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from faults.processes import descendants, hangs, pipes_of
from rlox.envs.workers import spawner, wire, worker_pool
from rlox.envs.workers.wire import ReplyTimeout, Wire

LOOK = 0.005  # seconds between two checks for hung processes


def expire_for_hung(patch: pytest.MonkeyPatch) -> list[float]:
    """Make deadlines expire at once for hung workers; return the deadlines that expired early.

    The clock does not change. When a pool waits for a worker that is stopped, or that marked itself as hung,
    the wait reports at once that the worker is late. Healthy workers keep their long deadlines.
    """
    passed: list[float] = []
    wait, deliver = Wire.wait, wire.flush_all

    def wait_unless_hung(self: Wire, deadline: float | None = None) -> None:
        while deadline is not None:
            try:
                return wait(self, min(deadline, time.monotonic() + LOOK))
            except ReplyTimeout:
                if time.monotonic() >= deadline:
                    raise
            if _nobody_answers(self.read_fd):
                passed.append(deadline)
                return wait(self, time.monotonic())  # output from before the hang counts
        return wait(self)

    def deliver_now(wires: Iterable[Wire], deadline: float | None) -> list[Wire]:
        pending_wires = list(wires)
        while unanswered := deliver(pending_wires, time.monotonic() + LOOK):
            if deadline is None:
                continue
            if time.monotonic() >= deadline:
                break
            if all(_nobody_answers(unanswered_wire.write_fd) for unanswered_wire in unanswered):
                passed.append(deadline)
                break
        return unanswered

    patch.setattr(Wire, "wait", wait_unless_hung)
    for module in (wire, worker_pool, spawner):
        patch.setattr(module, "flush_all", deliver_now)
    return passed


def expire_polls_for_hung(patch: pytest.MonkeyPatch) -> None:
    """Do the same for processes of `multiprocessing` that the caller polls with a timeout."""
    poll = Connection.poll

    def poll_unless_hung(self: Connection, timeout: float | None = 0.0) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while deadline is None or time.monotonic() < deadline:
            if poll(self, LOOK):
                return True
            if any(map(hangs, descendants(os.getpid()))):
                break
        return poll(self, 0.0)  # output from before the hang counts

    patch.setattr(Connection, "poll", poll_unless_hung)


def _nobody_answers(end: int) -> bool:
    """Return whether the process at the other end of a pipe hangs."""
    name = str(Path(f"/proc/self/fd/{end}").readlink())
    return any(hangs(pid) and name in pipes_of(pid) for pid in descendants(os.getpid()))
