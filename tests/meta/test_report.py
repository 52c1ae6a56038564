"""Tests the report of full-size counts: no entry is lost in writing, and each count names its origin."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from faults import report
from faults.cases import CASES
from faults.report import REPORT, add, commit, dated
from helpers.repositories import commit_all

ENTRIES: dict[str, dict[str, Any]] = json.loads(REPORT.read_text(encoding="utf-8"))


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


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a repository with one commit of the report and another file."""
    place = tmp_path / REPORT.relative_to(REPORT.parents[2])
    place.parent.mkdir(parents=True)
    place.write_text("{}\n", encoding="utf-8")
    (tmp_path / "code.py").write_text("one = 1\n", encoding="utf-8")
    commit_all(tmp_path)
    commit.cache_clear()
    return tmp_path


def test_the_report_itself_does_not_mark_the_commit_of_a_count_as_changed(checkout: Path):
    (checkout / REPORT.relative_to(REPORT.parents[2])).write_text("{ }\n", encoding="utf-8")
    found = commit(checkout)
    assert re.fullmatch("[0-9a-f]{40}", found["id"])
    assert found["changed"] is False


def test_changed_code_marks_the_commit_of_a_count_as_changed(checkout: Path):
    (checkout / "code.py").write_text("one = 2\n", encoding="utf-8")
    assert commit(checkout)["changed"] is True


def test_a_count_gets_a_date_a_machine_and_a_commit(checkout: Path, monkeypatch: Any):
    monkeypatch.setattr(report, "REPORT", checkout / REPORT.relative_to(REPORT.parents[2]))
    found = dated({"kills": 3})
    assert list(found) == ["kills", "date", "machine", "commit"]
    assert found["commit"] == commit(checkout)


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_names_its_date_its_machine_and_its_commit(name: str):
    entry = ENTRIES[name]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", entry["date"])
    assert "cores" in entry["machine"]
    assert re.fullmatch("[0-9a-f]{40}", entry["commit"]["id"])
    if entry["commit"]["changed"] is None:  # the commit is unknown: then the entry says why
        assert len(entry["commit"]["by hand"]) > 10


def test_the_report_has_every_case_with_a_place_for_each_of_its_kills():
    found = {k: v for k, v in ENTRIES.items() if k.startswith("exact resume: ")}
    assert set(CASES) == {name.removeprefix("exact resume: ") for name in found}
    for name, entry in found.items():
        assert name.removeprefix("exact resume: ") in CASES, name
        assert entry["runs"] == len(entry["where"]), name
        assert entry["kills"] == sum(map(len, entry["where"].values())), name
