"""Counts that several processes record at once all come into the report."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults.report import add


def test_entries_that_are_added_at_once_are_all_there_and_sorted(tmp_path: Path):
    path = tmp_path / "report.json"
    path.write_text('{"kept": {"lost": 0}}\n', encoding="utf-8")
    names = [f"entry {number:02d}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add(path, name, {"name": name}), reversed(names)))
    found = json.loads(path.read_text(encoding="utf-8"))
    assert list(found) == [*names, "kept"]
    assert all(found[name] == {"name": name} for name in names)
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
