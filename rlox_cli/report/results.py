"""What a report computes: every number in its tables and figures is one of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlox_cli.report.records import Array
from rlox_cli.report.study import Cell
from rlox_cli.report.tables import IntervalEstimate


@dataclass(frozen=True)
class CellResult:
    """The scores of one method on one task."""

    cell: Cell
    n: int
    iqm: IntervalEstimate
    mean: IntervalEstimate
    median: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Aggregate:
    """The scores of one method over its tasks, on one scale."""

    method: str
    tasks: int
    runs: int
    iqm: IntervalEstimate
    median: IntervalEstimate
    mean: IntervalEstimate
    optimality_gap: IntervalEstimate | None  # how far below 1, where 1 means something


@dataclass(frozen=True)
class ProfileCurve:
    """The part of runs whose score is above a threshold."""

    method: str
    tasks: int
    runs: int
    thresholds: Array
    fraction: Array
    low: Array | None
    high: Array | None


@dataclass(frozen=True)
class Improvement:
    """How likely a run of one method is better than one of another."""

    x: str
    y: str
    tasks: int
    runs: int  # of x
    other_runs: int  # of y
    estimate: IntervalEstimate


@dataclass(frozen=True)
class Band:
    """A curve over the seeds of a method."""

    method: str
    runs: int
    tasks: int
    kind: str
    steps: Array
    estimate: Array
    low: Array | None
    high: Array | None


@dataclass(frozen=True)
class TaskCurves:
    """The curves on one task that count the same unit."""

    task: str
    unit: str
    kind: str
    bands: Sequence[Band]


@dataclass(frozen=True)
class TimeBreakdown:
    """Where the seconds of a method on a task go, as means over its runs."""

    method: str
    task: str
    n: int
    parts: Mapping[str, float]
    total: float
    rate: IntervalEstimate | None  # steps a second, from the slowest to the fastest run
    unit: str


@dataclass(frozen=True)
class Results:
    """All of it."""

    scale: str  # what a score over tasks is
    is_normalized: bool  # whether it is put on one
    cells: Sequence[CellResult]
    aggregates: Sequence[Aggregate]
    profile: Sequence[ProfileCurve]
    improvements: Sequence[Improvement]
    curves: Sequence[TaskCurves]
    measures: Sequence[TaskCurves]
    efficiency: Sequence[Band]
    efficiency_unit: str
    times: Sequence[TimeBreakdown]

    @property
    def overall(self) -> list[Aggregate]:
        """The aggregates of methods that were scored on several tasks."""
        return [a for a in self.aggregates if a.tasks > 1]
