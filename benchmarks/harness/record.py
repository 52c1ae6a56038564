"""The record of a benchmark run: plain dataclasses that are written as JSON and read again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1


class SchemaError(Exception):
    """A results file has another version, or it lacks a field."""


@dataclass(frozen=True)
class SystemRecord:
    """The times of one system; `seconds` is empty if it is not installed."""

    name: str
    package: str
    ours: bool
    seconds: tuple[float, ...]  # of the whole case, one for each round
    loops: int  # inner repetitions of each sample
    scale: float  # `seconds` are those of one loop times this
    median: float | None
    note: str


@dataclass(frozen=True)
class Comparison:
    """One of rlox's systems against one peer: the ratio peer / rlox with a 95% interval."""

    ours: str
    peer: str
    ratio: float
    low: float
    high: float
    fastest: bool  # the peer is the fastest of the case


@dataclass(frozen=True)
class GoalVerdict:
    """A goal and whether it is met; `against` is the peer of the comparison."""

    ours: str
    against: str
    minimum: float
    ratio: float
    met: bool
    goal: bool  # False: the condition that no peer is faster


@dataclass(frozen=True)
class CaseRecord:
    """All measurements of one case."""

    row: str
    work: str
    size: str
    elements: int
    systems: tuple[SystemRecord, ...]
    comparisons: tuple[Comparison, ...]
    verdicts: tuple[GoalVerdict, ...]


@dataclass(frozen=True)
class Report:
    """One benchmark run."""

    benchmark: str
    date: str
    quick: bool
    commit: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    threads: dict[str, str]
    protocol: dict[str, Any]
    cases: tuple[CaseRecord, ...]
    schema_version: int = field(default=SCHEMA_VERSION)

    def write(self, path: Path) -> None:
        """Write the report as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_report(path: Path) -> Report:
    """Read a report that `Report.write` has written.

    Raises:
        SchemaError: another schema version, or a field is missing or unknown.
    """
    tree = json.loads(path.read_text(encoding="utf-8"))
    version = tree.get("schema_version")
    if version != SCHEMA_VERSION:
        raise SchemaError(f"{path.name}: schema_version is {version}, expected {SCHEMA_VERSION}")
    try:
        return Report(**{**tree, "cases": tuple(read_case(case) for case in tree["cases"])})
    except (KeyError, TypeError) as error:
        raise SchemaError(f"{path.name}: {error}") from error


def read_case(tree: dict[str, Any]) -> CaseRecord:
    """Read one case of a report."""
    systems = tuple(SystemRecord(**{**s, "seconds": tuple(s["seconds"])}) for s in tree["systems"])
    comparisons = tuple(Comparison(**c) for c in tree["comparisons"])
    verdicts = tuple(GoalVerdict(**v) for v in tree["verdicts"])
    parts = {"systems": systems, "comparisons": comparisons, "verdicts": verdicts}
    return CaseRecord(**{**tree, **parts})
