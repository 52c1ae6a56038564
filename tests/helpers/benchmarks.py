"""Fake systems with given timings, and small records of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from harness.case import Case, Goal, Results, System, Tolerance
from harness.cli import Context
from harness.measure import measure_case
from harness.original import Original
from harness.record import CaseRecord, Report
from harness.timing import Protocol

PROTOCOL = Protocol(repeats=7, min_seconds=1e-3)
NOWHERE = Context(Original(None), is_quick=True)


class FakeRunner:
    """Takes the times in `seconds` per loop, in turn, and writes each sample into `journal`."""

    def __init__(self, name: str, seconds: Iterable[float], result: float, journal: list[Any]) -> None:
        self.name, self.journal, self._result = name, journal, result
        self.seconds = itertools.cycle(seconds)

    def sample(self, loops: int) -> float:
        self.journal.append((self.name, loops))
        return next(self.seconds) * loops

    def result(self) -> Results:
        return {"answer": np.array([self._result])}

    def close(self) -> None:
        self.journal.append((self.name, "closed"))


def fake(
    name: str,
    *seconds: float,
    result: float = 1.0,
    package: str = "numpy",
    journal: list[Any] | None = None,
    **options: Any,
) -> System:
    """Return a system that takes `seconds`."""
    notes = [] if journal is None else journal
    return System(name, package, lambda: FakeRunner(name, seconds, result, notes), **options)


def case(ours: System | tuple[System, ...], *peers: System, size: str = "10") -> Case:
    """Return a case of these systems."""
    own_timings = ours if isinstance(ours, tuple) else (ours,)
    return Case("P0", "counting", size, own_timings, peers, Tolerance(1e-6))


def record(
    own_seconds: float = 0.01, peer: float = 0.02, goal: float = 1.5, absent: tuple[str, ...] = ()
) -> CaseRecord:
    """Return a record of rlox's system with a goal, next to one peer."""
    peers = (fake("slow", peer), fake("gone", 0.5, package="envpool", note="only a test"))
    ours = fake("rlox", own_seconds, package="rlox", goals=(Goal(goal),))
    return measure_case(case(ours, *peers), PROTOCOL, absent)


def report(*cases: CaseRecord) -> Report:
    """Return a report of these cases."""
    return Report(
        benchmark="test",
        date="2026-01-02T03:04:05+00:00",
        quick=False,
        commit={"id": "0123456789abcdef", "changed": False},
        machine={"cpu": "a processor", "cores": 2, "load": 0.5},
        versions={"python": "3.11"},
        threads={"torch": "1"},
        protocol={"repeats": 7, "min_seconds": 1e-3, "resamples": 10_000},
        cases=cases,
    )
