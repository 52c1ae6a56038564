"""Tests that loggers get the rows of a session and cannot stop it."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.sessions import algorithm, resume_session, rows

from rlox.runs.journal import CLOSE_SECONDS, MIN_SECONDS, Journal
from rlox.runs.session import Session


def test_csv_has_every_row_with_columns_that_show_late(tmp_path: Path) -> None:
    options = {"logger": {"csv": {"name": "csv"}}, "eval": {"every": 128, "episodes": 2}}
    Session(algorithm(**options), tmp_path).run()
    with (tmp_path / "metrics.csv").open() as file:
        table = list(csv.DictReader(file))
    found = rows(tmp_path / "metrics.jsonl")
    assert len(table) == len(found)
    for line, row in zip(table, found, strict=True):
        for name, cell in line.items():
            value = row.get(name)
            assert (cell == "") if value is None else (float(cell) == value)
    assert "eval/return_mean" in table[0]


def test_csv_keeps_the_rows_of_before_when_a_run_is_resumed(tmp_path: Path) -> None:
    options = {"logger": {"csv": {"name": "csv"}}}
    Session(algorithm(256, **options), tmp_path).run()
    resume_session(tmp_path, 512).run()
    with (tmp_path / "metrics.csv").open() as file:
        steps = [int(line["env_steps"]) for line in csv.DictReader(file)]
    assert steps == [r["env_steps"] for r in rows(tmp_path / "metrics.jsonl")]
    assert steps[0] == 64


def test_tensorboard_has_the_scalars_at_their_steps(tmp_path: Path) -> None:
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is optional"
    )
    Session(algorithm(logger={"tb": {"name": "tensorboard"}}), tmp_path).run()
    events = reader.EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    found = [r for r in rows(tmp_path / "metrics.jsonl") if "loss/value" in r]
    scalars = events.Scalars("loss/value")
    assert [s.step for s in scalars] == [r["env_steps"] for r in found]
    assert [s.value for s in scalars] == pytest.approx([r["loss/value"] for r in found])
    assert "env_steps" not in events.Tags()["scalars"]
    every_row = {"updates", "seconds"}  # the position of the row, which rows of evaluations have too
    for tag in set(events.Tags()["scalars"]) - every_row:
        steps = [s.step for s in events.Scalars(tag)]
        assert steps == sorted(set(steps)), f"{tag} is there twice at a step"


def test_a_broken_logger_warns_and_the_run_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, found: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("rlox.loggers.csv.CsvSink.write", refuse)
    monkeypatch.setattr("rlox.runs.journal.CLOSE_SECONDS", 0.3)
    session = Session(algorithm(logger={"csv": {"name": "csv"}}), tmp_path)
    with pytest.warns(UserWarning, match="logger csv lacks 9 rows: disk full"):
        outcome = session.run()
    assert outcome.reason == "total_steps"
    assert len(rows(tmp_path / "metrics.jsonl")) == 9
    assert (session.deliveries["csv"].n_sent, session.deliveries["csv"].n_missing) == (0, 9)


def test_the_time_limit_of_loggers_counts_from_the_last_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    def noted(followers: Any, timeout: float) -> dict[str, Any]:
        waited.append(timeout)
        return {}

    clock = [100.0]
    monkeypatch.setattr("rlox.runs.journal.finish", noted)
    monkeypatch.setattr("rlox.runs.journal.time", SimpleNamespace(monotonic=lambda: clock[-1]))
    journal = Journal(tmp_path, algorithm().config, {})
    journal.close(deliver=False)
    for now in (100.0, 101.5, 160.0):
        clock.append(now)
        journal.deliver()
    assert waited == [CLOSE_SECONDS, CLOSE_SECONDS - 1.5, MIN_SECONDS]


def test_a_working_logger_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        outcome = Session(algorithm(logger={"csv": {"name": "csv"}}), tmp_path).run()
    assert outcome.checkpoint.is_dir()
