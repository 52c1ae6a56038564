"""A slow or broken sink costs training nothing; files hold what was written."""

from __future__ import annotations

import csv
import json
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from rlox.errors import StorageError
from rlox.loggers import JsonLines, Row, Spool
from rlox.loggers.files import CsvSink


class Gate:
    """A sink that waits until it is opened, then keeps or raises."""

    def __init__(self, error: Exception | None = None) -> None:
        self.open = threading.Event()
        self.rows: list[Row] = []
        self.closed = False
        self.error = error
        self.asked = 0

    def write(self, row: Row) -> None:
        self.asked += 1
        self.open.wait()
        if self.error:
            raise self.error
        self.rows.append(row)

    def close(self) -> None:
        self.closed = True


def test_writing_to_a_stuck_sink_returns_at_once() -> None:
    sink = Gate()
    spool = Spool(sink, "stuck")
    begun = time.perf_counter()
    for step in range(1000):
        spool.write({"env_steps": step})
    assert time.perf_counter() - begun < 0.5
    sink.open.set()
    spool.close()
    assert [r["env_steps"] for r in sink.rows] == list(range(1000))
    assert sink.closed


def test_closing_a_stuck_sink_gives_up_after_its_timeout_and_says_so() -> None:
    sink = Gate()
    spool = Spool(sink, "stuck")
    spool.write({"env_steps": 1})
    begun = time.perf_counter()
    with pytest.warns(UserWarning, match="logger stuck is incomplete"):
        spool.close(timeout=0.2)
    assert time.perf_counter() - begun < 2
    sink.open.set()


def test_a_raising_sink_is_asked_once_closed_and_reported() -> None:
    sink = Gate(ValueError("no such server"))
    sink.open.set()
    spool = Spool(sink, "wandb")
    for step in range(5):
        spool.write({"env_steps": step})
    with pytest.warns(UserWarning, match="wandb is incomplete: no such server; metrics.jsonl has"):
        spool.close()
    assert sink.closed
    assert sink.asked == 1


def test_beyond_its_limit_the_oldest_rows_are_dropped_and_counted() -> None:
    sink = Gate()
    spool = Spool(sink, "slow", limit=3)
    spool.write({"env_steps": 0})
    while spool._rows.qsize():  # taken by the thread, which now waits
        time.sleep(0.001)
    for step in range(1, 11):
        spool.write({"env_steps": step})
    sink.open.set()
    with pytest.warns(UserWarning, match="7 rows"):
        spool.close()
    assert [r["env_steps"] for r in sink.rows] == [0, 8, 9, 10]


def test_a_sink_that_fails_only_in_closing_is_reported() -> None:
    class Fails(Gate):
        def close(self) -> None:
            raise OSError("gone")

    sink = Fails()
    sink.open.set()
    spool = Spool(sink, "remote")
    with pytest.warns(UserWarning, match="gone"):
        spool.close()


def test_json_lines_are_flushed_row_by_row_with_null_for_what_is_not_finite(tmp_path: Path) -> None:
    log = JsonLines(tmp_path / "m.jsonl")
    log.write({"a": 1.5, "b": float("nan"), "c": None, "d": float("-inf"), "e": 3})
    content = (tmp_path / "m.jsonl").read_bytes()
    assert json.loads(content) == {"a": 1.5, "b": None, "c": None, "d": None, "e": 3}
    assert log.offset == len(content)
    log.close()
    again = JsonLines(tmp_path / "m.jsonl", len(content))
    assert again.offset == len(content)
    again.write({"a": 2})
    assert again.offset == (tmp_path / "m.jsonl").stat().st_size
    again.close()


def test_a_log_that_cannot_be_opened_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        JsonLines(tmp_path / "missing" / "m.jsonl")


def test_a_late_column_is_added_to_the_csv_and_empty_in_earlier_rows(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path / "m.csv")
    written: list[dict[str, Any]] = [{"a": 1}, {"a": 2, "b": 3}, {"b": 4}, {"c": None}]
    for row in written:
        sink.write(row)
    sink.close()
    with (tmp_path / "m.csv").open() as file:
        table = list(csv.reader(file))
    assert table == [
        ["a", "b", "c"], ["1", "", ""], ["2", "3", ""], ["", "4", ""], ["", "", ""],
    ]  # fmt: skip


def test_a_quiet_spool_closes_without_warning() -> None:
    sink = Gate()
    sink.open.set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Spool(sink, "fine").close()
    assert sink.closed
