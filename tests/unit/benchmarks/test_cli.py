"""Tests the shared command line: its rows, peers and exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from harness import cli, original, peers, threads
from harness.case import Case, Goal
from harness.cli import Context, run
from helpers.benchmarks import case, fake


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets one thread, and hides the original on this machine."""
    for name, value in threads.SINGLE_THREAD_ENV.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cli, "find_python", lambda given: None)


def quick(context: Context) -> Iterator[Case]:
    """Yields a row whose goal is met."""
    yield case(fake("rlox", 0.01, package="rlox", goals=(Goal(1.5),)), fake("slow", 0.02))


def slow(context: Context) -> Iterator[Case]:
    """Yields a row in which a peer is faster."""
    yield case(fake("rlox", 0.03, package="rlox"), fake("fast", 0.02))


def lonely(context: Context) -> Iterator[Case]:
    """Yields a row with a peer that is not installed."""
    yield case(
        fake("rlox", 0.01, package="rlox"),
        fake("slow", 0.02),
        fake("rlox 1.2.0", 0.02, package="original"),
    )


ROWS = {"P1": quick, "P2": slow, "P3": lonely}


def test_results_are_written_as_json_table_and_picture(tmp_path, capsys):
    assert run(ROWS, "test", "about", ["--rows", "P1", "--out", str(tmp_path)]) == 0
    tree = json.loads((tmp_path / "test.json").read_text())
    assert [c["row"] for c in tree["cases"]] == ["P0"]
    assert tree["protocol"]["resamples"] == 10_000
    assert tree["threads"]["RAYON_NUM_THREADS"] == "1"
    assert "rlox-runner" in tree["versions"]
    assert "2.00x [2.00, 2.00] slow" in (tmp_path / "test.md").read_text()
    assert (tmp_path / "plots" / "p0_counting.png").exists()
    assert "[1/1] P0 counting, 10: rlox 10.0 ms; slow 20.0 ms" in capsys.readouterr().out


def test_the_cases_that_have_a_goal_can_be_measured_by_themselves(tmp_path):
    given = ["--rows", "P1,P2", "--out", str(tmp_path)]
    for more, count in (([], 2), (["--goals"], 1)):
        assert run(ROWS, "test", "about", [*given, *more]) == 0
        (*cases,) = json.loads((tmp_path / "test.json").read_text())["cases"]
        assert len(cases) == count
    table = (tmp_path / "test.md").read_text()
    assert "| slow |" in table
    assert "| fast |" not in table


def test_a_missing_peer_fails_the_run_and_says_what_to_install(tmp_path, capsys):
    assert run(ROWS, "test", "about", ["--rows", "P3", "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    assert "rlox 1.2.0: --install-original" in message
    assert "--allow-missing" in message
    assert list(tmp_path.iterdir()) == []


def test_a_peer_may_be_missing_if_asked_and_the_table_says_so(tmp_path):
    argv = ["--rows", "P3", "--allow-missing", "--out", str(tmp_path)]
    assert run(ROWS, "test", "about", argv) == 0
    assert "not installed" in (tmp_path / "test.md").read_text()


def test_rlox_itself_may_not_be_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(peers, "is_importable", lambda package: package != "rlox")
    argv = ["--rows", "P1", "--allow-missing", "--out", str(tmp_path)]
    assert run(ROWS, "test", "about", argv) == 2
    assert "pip install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "gate", "status"),
    [("P1", True, 0), ("P2", True, 1), ("P2", False, 0), ("P1,P2", True, 1)],
)
def test_the_benchmark_gate_exits_with_1_if_a_peer_is_faster(rows, gate, status, tmp_path, capsys):
    argv = ["--rows", rows, "--out", str(tmp_path), *(["--gate"] if gate else [])]
    assert run(ROWS, "test", "about", argv) == status
    assert ("a peer is faster" in capsys.readouterr().out) is ("P2" in rows)


@pytest.mark.parametrize("argv", [["--rows", "P1,P7"], ["--repeats", "3"]])
def test_the_benchmark_command_explains_unknown_rows_and_few_repeats(argv, capsys):
    with pytest.raises(SystemExit, match="2"):
        run(ROWS, "test", "about", argv)
    message = capsys.readouterr().err
    assert "no row P7; there are P1, P2, P3" in message or "at least 7" in message


def test_a_part_or_a_quick_run_does_not_replace_the_committed_results(tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(cli, "CACHE", tmp_path / "cache")
    everything = {"P1": quick}
    run(everything, "test", "about", ["--quick"])
    run(ROWS, "test", "about", ["--rows", "P1"])
    assert [p.name for p in tmp_path.iterdir()] == ["cache"]
    run(everything, "test", "about", [])
    assert (tmp_path / "results" / "test.json").exists()


def test_without_the_thread_variables_the_program_starts_anew_with_them(monkeypatch):
    started: list[dict[str, str]] = []
    monkeypatch.delenv("RAYON_NUM_THREADS")
    monkeypatch.setattr(threads.os, "execve", lambda path, argv, env: started.append(env))
    threads.ensure_single_threaded()
    assert started[0]["RAYON_NUM_THREADS"] == "1"


def test_with_the_thread_variables_the_program_goes_on(monkeypatch):
    monkeypatch.setattr(threads.os, "execve", lambda *_: pytest.fail("started anew"))
    threads.ensure_single_threaded()
    assert original.PYTHON_VARIABLE == "RLOX_ORIGINAL_PYTHON"
