"""Tests that a row is in the JSON lines file when `write` returns, and that readers get only whole rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlox.errors import StorageError
from rlox.loggers import JsonLines, read_rows
from rlox.loggers.jsonl import iter_rows


def test_json_lines_flushes_each_row_and_writes_non_finite_numbers_as_null(tmp_path: Path) -> None:
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


def test_iter_rows_yields_whole_rows_with_their_end_offsets(
    tmp_path: Path,
) -> None:
    file = tmp_path / "m.jsonl"
    file.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a": 3}')
    assert list(iter_rows(file)) == [({"a": 1}, 9), ({"a": 2}, 18)]
    assert list(iter_rows(file, 9)) == [({"a": 2}, 18)]
    assert list(iter_rows(file, 18)) == []
    file.write_bytes(file.read_bytes() + b"\n")
    assert list(iter_rows(file, 18)) == [({"a": 3}, 27)]
    assert read_rows(file) == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_a_damaged_line_is_passed_over_and_a_missing_file_has_no_rows(tmp_path: Path) -> None:
    file = tmp_path / "m.jsonl"
    file.write_bytes(b'{"a": 1}\n\x00\x00\x00\n{"a": 2}\n')
    assert list(iter_rows(file)) == [({"a": 1}, 9), ({"a": 2}, 22)]
    assert read_rows(tmp_path / "none.jsonl") == []


def test_lines_that_are_no_row_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    deep = "[" * 200_000
    file.write_text(f'{deep}\n7\n[1]\n{{\n{{"a": 1}}\n')
    assert read_rows(file) == [{"a": 1}]
