"""One spec per registered logger: how an independent reader reads its contents back."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# By metric: the step and the value of each row that has the metric, in order.
Series = dict[str, list[tuple[int, float]]]


@dataclass(frozen=True)
class LoggerSpec:
    """The facts about a logger that the contract tests need."""

    read: Callable[[Path], Series]  # reads a run folder
    number: Callable[[float], float] = float  # rounds a number as the logger does
    hidden: frozenset[str] = frozenset()  # metrics that the logger stores in another way
    named: Callable[[str], str] = str  # the logger's name of a metric
    elsewhere: bool = False  # the logger runs in a separate process for seconds: its tests are slow

    def series(self, rows: Iterable[Mapping[str, Any]]) -> Series:
        """Return the series that `read` should return for these rows."""
        found: Series = {}
        for row in rows:
            for name in row.keys() - self.hidden:
                if row[name] is not None:
                    point = (row["env_steps"], self.number(row[name]))
                    found.setdefault(self.named(name), []).append(point)
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


def read_mlflow(folder: Path) -> Series:
    """Read the tables of the store, ordered by time."""
    found: Series = {}
    with closing(sqlite3.connect(folder / "mlruns" / "mlflow.db")) as store:
        assert store.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        asked = "SELECT key, step, value FROM metrics ORDER BY timestamp"
        for key, step, value in store.execute(asked):
            found.setdefault(key, []).append((step, value))
        last = dict(store.execute("SELECT key, value FROM latest_metrics"))
    assert last == {key: points[-1][1] for key, points in found.items()}
    return found


def wandb_records(file: Path) -> Iterator[Any]:
    """Yield the records of an offline file: LevelDB's log format after 7 bytes, with W&B's own messages."""
    record = pytest.importorskip("wandb.proto.wandb_internal_pb2").Record
    data, at, whole = file.read_bytes(), 7, b""
    assert data[:4] == b":W&B"
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # the rest of the block is too short for a header
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole record, or its last part
            yield record.FromString(whole)
            whole = b""


def read_wandb(folder: Path) -> Series:
    """Read the rows of the only offline file, in its order."""
    found: Series = {}
    (file,) = (folder / "wandb").glob("offline-run-*/*.wandb")
    histories = [r.history for r in wandb_records(file) if r.WhichOneof("record_type") == "history"]
    for number, history in enumerate(histories):
        row = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in history.item}
        assert row["_step"] == number
        for name in row.keys() - {"_step", "_timestamp", "_runtime"}:
            found.setdefault(name, []).append((row["env_steps"], row[name]))
    return found


SPECS: dict[str, LoggerSpec] = {
    "csv": LoggerSpec(read_csv),
    "tensorboard": LoggerSpec(
        read_tensorboard,
        number=lambda value: float(np.float32(value)),
        hidden=frozenset({"env_steps"}),  # the step of each event
    ),
    "wandb": LoggerSpec(read_wandb, elsewhere=True),
    "mlflow": LoggerSpec(read_mlflow, named=lambda name: name.replace(",", "_"), elsewhere=True),
}
