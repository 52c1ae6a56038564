"""Deadlines that pass at once for workers that hang, and for no other, however busy the machine is."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from faults.processes import below, hangs, pipes_of
from rlox.envs.workers import crew, nursery, wire
from rlox.envs.workers.wire import Late, Wire

LOOK = 0.005  # seconds between two looks at who hangs


def pass_for_the_hung(patch: pytest.MonkeyPatch) -> list[float]:
    """Let deadlines be long for the healthy and cost a hang nothing; the deadlines that passed early.

    Time goes as ever. But where a pool waits for a worker that is stopped, or that said that it hangs, it
    is told at once that the worker is late.
    """
    passed: list[float] = []
    wait, deliver = Wire.wait, wire.delivered

    def waited(self: Wire, deadline: float | None = None) -> None:
        while deadline is not None:
            try:
                return wait(self, min(deadline, time.monotonic() + LOOK))
            except Late:
                if time.monotonic() >= deadline:
                    raise
            if _nobody_answers(self.reads):
                passed.append(deadline)
                return wait(self, time.monotonic())  # what came before the hang counts
        return wait(self)

    def delivered(wires: Iterable[Wire], deadline: float | None) -> list[Wire]:
        asked = list(wires)
        while left := deliver(asked, time.monotonic() + LOOK):
            if deadline is None:
                continue
            if time.monotonic() >= deadline:
                break
            if all(_nobody_answers(each.writes) for each in left):
                passed.append(deadline)
                break
        return left

    patch.setattr(Wire, "wait", waited)
    for module in (wire, crew, nursery):
        patch.setattr(module, "delivered", delivered)
    return passed


def give_up_the_hung(patch: pytest.MonkeyPatch) -> None:
    """The same for processes of `multiprocessing` that are listened to with a timeout."""
    poll = Connection.poll

    def polled(self: Connection, timeout: float | None = 0.0) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while deadline is None or time.monotonic() < deadline:
            if poll(self, LOOK):
                return True
            if any(map(hangs, below(os.getpid()))):
                break
        return poll(self, 0.0)  # what came before the hang counts

    patch.setattr(Connection, "poll", polled)


def _nobody_answers(end: int) -> bool:
    """Whether the process at the other end of a pipe hangs."""
    name = str(Path(f"/proc/self/fd/{end}").readlink())
    return any(hangs(pid) and name in pipes_of(pid) for pid in below(os.getpid()))
