"""The results of a report: every number in its tables and figures is in one of these classes."""

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
    optimality_gap: IntervalEstimate | None  # mean distance below 1; only on a normalised scale


@dataclass(frozen=True)
class ProfileCurve:
    """The fraction of runs with a score above each threshold."""

    method: str
    tasks: int
    runs: int
    thresholds: Array
    fraction: Array
    low: Array | None
    high: Array | None


@dataclass(frozen=True)
class Improvement:
    """The probability that a run of one method is better than one of another."""

    x: str
    y: str
    tasks: int
    runs: int  # of x
    other_runs: int  # of y
    estimate: IntervalEstimate


@dataclass(frozen=True)
class Band:
    """A curve over the seeds of a method, with its interval if it has one."""

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
    """The curves on one task whose steps have the same unit."""

    task: str
    unit: str
    kind: str
    bands: Sequence[Band]


@dataclass(frozen=True)
class TimeBreakdown:
    """The seconds of a method on a task, by part, as means over its runs."""

    method: str
    task: str
    n: int
    parts: Mapping[str, float]
    total: float
    rate: IntervalEstimate | None  # steps per second, from the slowest to the fastest run
    unit: str


@dataclass(frozen=True)
class Results:
    """All results of a report."""

    scale: str  # describes the scale of scores over tasks
    is_normalized: bool  # whether scores are on a scale from 0 to 1
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
