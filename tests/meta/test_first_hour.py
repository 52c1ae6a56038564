"""Tests that the list of new users' problems names existing tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import first_hour  # noqa: E402


def functions_of(file: str) -> set[str]:
    """Return the top-level functions of a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_line_of_the_list_names_existing_tests() -> None:
    rows = first_hour.read_list()
    assert len(rows) > 40
    assert [sentence for sentence, tests in rows.items() if not tests] == []
    named = [test.split("::") for tests in rows.values() for test in tests]
    single = [n for n in named if len(n) == 2]
    assert [n for n in single if not n[1].startswith("test_")] == []
    assert ["::".join(n) for n in single if n[1] not in functions_of(n[0])] == []
    whole = [n[0] for n in named if len(n) == 1]
    assert [f for f in whole if not any(name[:5] == "test_" for name in functions_of(f))] == []


def test_the_first_hour_command_runs_each_listed_test_once_with_its_options(
    monkeypatch: Any,
) -> None:
    ran: list[list[str]] = []

    def run(line: list[str], **options: Any) -> Any:
        ran.append(line)
        return subprocess.CompletedProcess(line, 3)

    monkeypatch.setattr(first_hour.subprocess, "run", run)
    assert first_hour.main(["-n", "2"]) == 3
    (line,) = ran
    assert line[1:3] == ["-m", "pytest"]
    assert line[-2:] == ["-n", "2"]
    tests = line[3:-2]
    assert len(set(tests)) == len(tests)
    assert set(tests) == {test for found in first_hour.read_list().values() for test in found}
