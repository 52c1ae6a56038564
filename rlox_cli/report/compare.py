"""`expected.json`: the figures that a report should have, and whether it has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlox.errors import ConfigError
from rlox_cli.report.records import number
from rlox_cli.report.results import Results
from rlox_cli.report.tables import Estimate, Table

SCHEMA_VERSION = 1


def figures_of(results: Results) -> dict[str, dict[str, Any]]:
    """Every number of a report with its interval, by name, as `report.json` and `expected.json` have it."""
    return {name: _entry(estimate, n) for name, estimate, n in _named(results)}


def document(title: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The content of `report.json`."""
    return {"schema_version": SCHEMA_VERSION, "title": title, "figures": dict(figures)}


def _named(results: Results) -> Iterator[tuple[str, Estimate, int]]:
    for r in results.cells:
        yield f"{r.cell.method} / {r.cell.task} / iqm", r.iqm, r.n
        yield f"{r.cell.method} / {r.cell.task} / mean", r.mean, r.n
    if len({r.cell.task for r in results.cells}) > 1:
        for a in results.aggregates:
            yield f"{a.method} / all tasks / iqm", a.iqm, a.runs
    for b in results.better:
        yield f"{b.x} > {b.y} / probability", b.estimate, b.tasks


def _entry(estimate: Estimate, n: int) -> dict[str, Any]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": n}


@dataclass(frozen=True)
class Compared:
    agrees: bool
    line: str = ""


def load(path: Path) -> Any: ...
def verdicts(expected: Any, figures: Any) -> list[Compared]: ...
def table(verdicts: Any) -> Table: ...
def summed(verdicts: Any) -> str: ...
