"""One spec per registered logger: how what it holds is read back, by a reader that is not ours."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# By metric: the step and the number of each row that has one, in order.
Series = dict[str, list[tuple[int, float]]]


@dataclass(frozen=True)
class LoggerSpec:
    """What the contract tests need to know of a logger."""

    read: Callable[[Path], Series]  # of a run folder
    number: Callable[[float], float] = float  # as precise as the logger keeps it
    hidden: frozenset[str] = frozenset()  # metrics that it shows in another way

    def series(self, rows: Iterable[Mapping[str, Any]]) -> Series:
        """What `read` is to give for these rows."""
        found: Series = {}
        for row in rows:
            for name in row.keys() - self.hidden:
                if row[name] is not None:
                    found.setdefault(name, []).append((row["env_steps"], self.number(row[name])))
        return found


def read_csv(folder: Path) -> Series:
    found: Series = {}
    with (folder / "metrics.csv").open(newline="") as file:
        for line in csv.DictReader(file, strict=True):
            for name, cell in line.items():
                if cell != "":
                    found.setdefault(name, []).append((int(line["env_steps"]), float(cell)))
    return found


def read_tensorboard(folder: Path) -> Series:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = reader.EventAccumulator(str(folder / "tb"), {"scalars": 0})
    events.Reload()
    names = events.Tags()["scalars"]
    return {name: [(e.step, e.value) for e in events.Scalars(name)] for name in names}


SPECS: dict[str, LoggerSpec] = {
    "csv": LoggerSpec(read_csv),
    "tensorboard": LoggerSpec(
        read_tensorboard,
        number=lambda value: float(np.float32(value)),
        hidden=frozenset({"env_steps"}),  # the step of each event
    ),
}
