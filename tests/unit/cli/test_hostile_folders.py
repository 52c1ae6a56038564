"""Tests of run folders with files that no run writes: no command waits for them or hides other folders."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from helpers.cli import Cli
from helpers.tree import tree

FILES = ("config.yaml", "status.json", "result.json", "metrics.jsonl", "episodes.jsonl", "log.txt")


@pytest.fixture
def other_run(trained: Path) -> Path:
    """Return a second run, which the tests do not change."""
    target = trained.with_name("other")
    shutil.copytree(trained, target, symlinks=True)
    return target


@pytest.mark.parametrize("name", FILES)
def test_resume_refuses_a_pipe_among_run_files_and_list_shows_other_runs(
    cli: Cli, trained: Path, other_run: Path, name: str
) -> None:
    (trained / name).unlink()
    os.mkfifo(trained / name)
    before = [(p, p.stat().st_mtime_ns) for p in sorted(trained.rglob("*"))]
    refused = cli("resume", str(trained), "total_steps=512")
    assert (refused.code, f"{trained / name} is not a regular file" in refused.err) == (2, True), refused.err
    assert [(p, p.stat().st_mtime_ns) for p in sorted(trained.rglob("*"))] == before
    listed = cli("list", "runs")
    assert (listed.code, str(other_run) in listed.out) == (0, True)
    if name == "status.json":
        assert "unreadable" in listed.out


@pytest.mark.parametrize("name", ["config.yaml", "status.json", "result.json", "metrics.jsonl"])
def test_a_report_does_not_wait_for_a_pipe(cli: Cli, trained: Path, other_run: Path, name: str) -> None:
    (trained / name).unlink()
    os.mkfifo(trained / name)
    result = cli("report", "runs", "formats=[]", "resamples=100")
    assert result.code == 0, result.err
    assert "CartPole-v1" in Path("runs/report/report.json").read_text()


@pytest.mark.parametrize(
    ("name", "text", "state"),
    [
        ("result.json", '{"score": "abc"}', "done"),
        ("result.json", '{"score": [1]}', "done"),
        ("result.json", "[" * 200_000, "done"),
        ("status.json", '{"status": "done", "step": 1e999}', "unreadable"),
        ("status.json", "[" * 200_000, "unreadable"),
        ("provenance.json", "[" * 200_000, "done"),
    ],
)
def test_rlox_list_shows_other_runs_beside_one_with_malformed_files(
    cli: Cli, trained: Path, other_run: Path, name: str, text: str, state: str
) -> None:
    (trained / name).write_text(text)
    result = cli("list", "runs")
    rows = {line.split()[-1]: line.split()[0] for line in result.out.splitlines()}
    assert (result.code, rows[str(other_run)], rows[str(trained)]) == (0, "done", state)


@pytest.mark.parametrize("line", ["[" * 200_000, "7", "{", '{"env_steps": "many"}'])
def test_a_line_of_a_log_that_is_no_row_hides_no_run(cli: Cli, trained: Path, line: str) -> None:
    (trained / "metrics.jsonl").write_text(f'{{"env_steps": 512}}\n{line}\n')
    status = '{"status": "running", "step": 8, "reason": ""}'
    (trained / "status.json").write_text(status)
    result = cli("list", "runs")
    assert result.code == 0
    assert result.out.splitlines()[1].startswith("died ")


def test_letters_that_move_the_cursor_are_not_printed(cli: Cli, trained: Path) -> None:
    status = {"status": "do\x1b[31mne\nx", "step": 1, "reason": ""}
    (trained / "status.json").write_text(json.dumps(status))
    result = cli("list", "runs")
    assert "\x1b" not in result.out
    assert [line.split()[0] for line in result.out.splitlines()] == ["state", "do?[31mne?x"]


def test_a_log_that_lost_rows_is_refused_before_anything_is_changed(cli: Cli, trained: Path) -> None:
    (trained / "metrics.jsonl").write_bytes(b"")
    before = tree(trained)
    result = cli("resume", str(trained), "total_steps=512")
    assert (result.code, "metrics.jsonl has 0 bytes" in result.err) == (1, True), result.err
    assert tree(trained) == before
