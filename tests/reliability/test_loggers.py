"""Tests that the loggers of a run have each row once after any kill and any disk error."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.child import ChildServer, reached
from faults.report import record
from helpers.selection import FULL
from helpers.waiting import until

from rlox.loggers import read_rows

ROLLOUT = 128


@pytest.fixture(scope="module")
def nursery() -> Iterator[ChildServer]:
    with ChildServer() as made:
        yield made


def config(updates: int) -> dict[str, Any]:
    algo = {"name": "ppo", "n_steps": 16, "n_epochs": 1, "net_arch": [16], "batch_size": 64}
    return {
        "algo": algo,
        "env": {"id": "CartPole-v1", "n_envs": 8},
        "total_steps": updates * ROLLOUT,
        "checkpoint": {"every": 4 * ROLLOUT},
        "log": {"every": ROLLOUT},
        "eval": {"every": 8 * ROLLOUT, "episodes": 1},
        "device": "cpu",
        "logger": {name: {"name": name} for name in ("csv", "tensorboard")},
    }


def require_every_row_once(run: Path) -> int:
    """Require that both loggers have the rows of `metrics.jsonl`; return their number."""
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    rows = read_rows(run / "metrics.jsonl")
    steps = [(row["env_steps"], row["seconds"]) for row in rows]
    with (run / "metrics.csv").open(newline="") as file:
        lines = list(csv.DictReader(file, strict=True))
    assert [(int(line["env_steps"]), float(line["seconds"])) for line in lines] == steps
    events = reader.EventAccumulator(str(run / "tb"), {"scalars": 0})
    events.Reload()
    seconds = [(event.step, event.value) for event in events.Scalars("seconds")]
    assert seconds == [(step, pytest.approx(value, rel=1e-6)) for step, value in steps]
    return len(rows)


def test_loggers_of_a_run_that_is_killed_and_resumed_have_each_row_once(
    nursery: ChildServer, tmp_path: Path
) -> None:
    chance, kills = random.Random(3), 100 if FULL else 6
    for _ in range(kills):
        before = reached(tmp_path)
        pid = nursery.start(tmp_path, config(100_000), resume=True)
        until(lambda before=before: reached(tmp_path) != before, "new checkpoint")
        nursery.kill(pid, tmp_path, 0, chance.uniform(0.05, 0.3))
    last = max(row["env_steps"] for row in read_rows(tmp_path / "metrics.jsonl"))
    assert nursery.run(tmp_path, config(last // ROLLOUT + 4), resume=True) == 0
    assert require_every_row_once(tmp_path) >= last // ROLLOUT + 4
    record("kills with loggers", {"kills": kills, "rows twice": 0, "rows lost": 0})


def test_a_full_disk_costs_no_logger_a_row(nursery: ChildServer, tmp_path: Path) -> None:
    full = [10 * ROLLOUT, 20 * ROLLOUT]
    assert nursery.run(tmp_path, config(60), full_disk=full) == 0
    assert require_every_row_once(tmp_path) == 60 + 8
