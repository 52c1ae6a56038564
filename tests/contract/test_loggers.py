"""Tests the guarantee of every registered logger: it ends up with the rows of `metrics.jsonl`."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faults.disk import FaultyDisk
from helpers.waiting import PATIENCE

from rlox.configs import LOGGER_CONFIGS, RunConfig, make_run
from rlox.errors import MissingExtraError
from rlox.loggers import LOGGERS, METRICS, JsonLines, Row, Sink, catch_up, check_loggers, follow
from rlox.runs import journal
from rlox.runs.journal import Journal

from .logger_specs import SPECS, Series

every_logger = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * spec.elsewhere) for n, spec in SPECS.items()],
)


def test_specs_and_configurations_match_the_registered_loggers() -> None:
    assert set(SPECS) == set(LOGGERS)
    assert set(LOGGER_CONFIGS) == set(LOGGERS) | {"jsonl"}
    assert {name: config().name for name, config in LOGGER_CONFIGS.items()} == {
        name: name for name in LOGGER_CONFIGS
    }


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make followers wait only briefly and take few rows at a time."""
    monkeypatch.setattr(follow, "MAX_BATCH", 3)
    monkeypatch.setattr(follow, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(follow, "START_SECONDS", 300.0)  # long enough also on a busy machine


def run_with(name: str) -> RunConfig:
    return make_run({"logger": {name: {"name": name}}})


def rows(count: int, mark: float = 0.0) -> list[dict[str, Any]]:
    """Return a training row every 64 steps, an evaluation at each third; values are null, late or large."""
    found: list[dict[str, Any]] = []
    for i in range(1, count + 1):
        now = {"env_steps": 64 * i, "updates": i, "seconds": i / 7}
        row: dict[str, Any] = {**now, "loss/policy": mark - i / 3, "train/return_mean": None}
        if i > 1:
            row["train/return_mean"] = float("nan") if i == 3 else 1e-7 * i
        if i > 4:
            row["late, and with a comma"] = 123456789 + i
        found.append(row)
        if i % 3 == 0:
            found.append({**now, "eval/return_mean": mark + i, "eval/infinite": float("inf")})
    return found


def truth(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def holds(name: str, folder: Path) -> tuple[Series, Series]:
    """Return the contents of the logger and the expected contents."""
    return SPECS[name].read(folder), SPECS[name].series(truth(folder))


def journal_of(folder: Path, name: str, written: Sequence[Row], cut: int = 0) -> Journal:
    """Open a session in `folder` that continues after row `cut`, and write rows."""
    folder.mkdir(exist_ok=True)
    lines = (folder / METRICS).read_bytes().splitlines(True) if cut else []
    made = Journal(folder, run_with(name), {METRICS: sum(map(len, lines[:cut]))})
    for row in written:
        made.write(row)
    return made


def append(folder: Path, written: Sequence[Row]) -> None:
    """Append rows that no logger receives."""
    log = JsonLines(folder / METRICS, (folder / METRICS).stat().st_size)
    for row in written:
        log.write(row)
    log.close()


def leave(folder: Path, name: str, written: Sequence[Row], cut: int = 0) -> None:
    """Write rows in a whole session."""
    journal_of(folder, name, written, cut).close()


class Around:
    """A sink that wraps the registered one and passes `write` through `meddle`."""

    def __init__(self, inner: Sink, meddle: Callable[[Sink, Sequence[Row]], None]) -> None:
        self.inner, self.meddle = inner, meddle
        self.open, self.finish = inner.open, inner.finish
        self.close, self.abandon = inner.close, inner.abandon

    def write(self, found: Sequence[Row]) -> None:
        self.meddle(self.inner, found)


Meddler = Callable[[Sink, Sequence[Row]], None]


@pytest.fixture
def meddled(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, Meddler], None]]:
    def place(name: str, meddle: Meddler) -> None:
        real = LOGGERS[name]
        sink = lambda *args: Around(real.sink(*args), meddle)  # noqa: E731
        monkeypatch.setitem(LOGGERS, name, replace(real, sink=sink))

    return place  # type: ignore[return-value]


@every_logger
def test_the_rows_that_are_written_are_the_rows_that_are_read(name: str, tmp_path: Path) -> None:
    leave(tmp_path, name, rows(10))
    found, expected = holds(name, tmp_path)
    assert found == expected
    assert len(expected["updates"]) == 13
    assert "eval/infinite" not in found
    assert len(found[SPECS[name].named("late, and with a comma")]) == 6


@pytest.mark.parametrize(
    ("name", "had"),
    [
        pytest.param(name, had, marks=[pytest.mark.slow] * spec.elsewhere)
        for name, spec in SPECS.items()
        for had in ([5, 8] if spec.elsewhere else [0, 2, 5, 8, 13])  # 7 rows are kept
    ],
)
def test_a_resumed_run_has_each_row_once_however_far_the_logger_was(
    name: str, had: int, tmp_path: Path
) -> None:
    first = rows(10)
    leave(tmp_path, name, first[:had])
    append(tmp_path, first[had:])
    # the checkpoint is between the training row and the evaluation of step 384
    assert first[7]["env_steps"] == first[6]["env_steps"] == 384
    leave(tmp_path, name, rows(12, mark=0.5)[7:], cut=7)
    assert len(truth(tmp_path)) == 16
    found, expected = holds(name, tmp_path)
    assert found == expected


@every_logger
def test_a_run_that_starts_anew_in_its_folder_leaves_nothing_of_the_old_one(
    name: str, tmp_path: Path
) -> None:
    leave(tmp_path, name, rows(9))
    leave(tmp_path, name, rows(2, mark=0.5))
    found, expected = holds(name, tmp_path)
    assert found == expected
    assert "eval/return_mean" not in found


@every_logger
def test_a_stuck_logger_does_not_block_the_run_and_gets_every_row_later(
    name: str, tmp_path: Path, meddled: Callable[[str, Meddler], None]
) -> None:
    gate = threading.Event()

    def slowly(inner: Sink, found: Sequence[Row]) -> None:
        assert gate.wait(PATIENCE)
        inner.write(found)

    meddled(name, slowly)
    made = journal_of(tmp_path, name, rows(30))  # returns although the logger takes no row yet
    assert len(truth(tmp_path)) == 40
    gate.set()
    made.close()
    found, expected = holds(name, tmp_path)
    assert found == expected


@every_logger
def test_a_logger_that_fails_for_a_while_after_half_a_write_has_each_row_once(
    name: str, tmp_path: Path, meddled: Callable[[str, Meddler], None]
) -> None:
    calls = itertools.count(1)

    def failing(inner: Sink, found: Sequence[Row]) -> None:
        if next(calls) in (1, 3, 4, 5):
            inner.write(found[: len(found) // 2])
            raise ConnectionError("reset by peer")
        inner.write(found)

    meddled(name, failing)
    leave(tmp_path, name, rows(10))
    assert next(calls) > 8
    found, expected = holds(name, tmp_path)
    assert found == expected


@every_logger
def test_catch_up_delivers_the_rows_a_logger_missed_exactly_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, refused, calls = LOGGERS[name], threading.Event(), itertools.count(1)

    def down(inner: Sink, found: Sequence[Row]) -> None:
        if (call := next(calls)) > 2:
            inner.write(found[:1])
            if call > 3:
                refused.set()  # the second failure: by then the first one is recorded
            raise ConnectionError("refused")
        inner.write(found)

    broken = replace(real, sink=lambda *args: Around(real.sink(*args), down))
    monkeypatch.setitem(LOGGERS, name, broken)
    monkeypatch.setattr(journal, "CLOSE_SECONDS", 0.05)
    monkeypatch.setattr(follow, "START_SECONDS", 0.05)
    made = journal_of(tmp_path, name, rows(10))
    assert refused.wait(PATIENCE)
    with pytest.warns(UserWarning, match=rf"logger {name} lacks \d+ rows: refused; .*catch_up"):
        made.close()
    missing = made.deliveries[name].n_missing
    assert 7 <= missing < 13 + SPECS[name].elsewhere  # a logger in another process may start its file again
    monkeypatch.setitem(LOGGERS, name, real)
    assert catch_up(tmp_path, run_with(name))[name] == follow.Delivery(missing, 0, None)
    found, expected = holds(name, tmp_path)
    assert found == expected
    assert catch_up(tmp_path, run_with(name))[name] == follow.Delivery(0, 0, None)


def killed_in_call(k: int, work: Callable[[], object]) -> bool:
    """Fork, run `work`, and SIGKILL the child in disk call k; return whether the child came that far."""
    if (pid := os.fork()) == 0:
        try:
            with FaultyDisk(k, error=None, torn=30):
                work()
        finally:
            os._exit(0)  # only the parent continues with the tests, whatever happens
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


# The killed process does not write the files of a logger that runs in another process.
@pytest.mark.parametrize("name", [name for name, spec in SPECS.items() if not spec.elsewhere])
@pytest.mark.parametrize("what", ["while it catches up", "while a resumed run takes rows back"])
def test_loggers_have_each_row_once_after_a_kill_in_any_disk_call(
    name: str, what: str, tmp_path: Path
) -> None:
    leave(tmp_path / "before", name, rows(3))
    for k in itertools.count(1):
        folder = shutil.copytree(tmp_path / "before", tmp_path / str(k))
        if what == "while it catches up":
            append(folder, rows(5)[4:])
            work: Callable[[], object] = lambda: catch_up(folder, run_with(name))  # noqa: B023, E731
        else:
            work = lambda: leave(folder, name, rows(5, mark=0.5)[2:], cut=2)  # noqa: B023, E731
        killed = killed_in_call(k, work)
        work()
        assert len(truth(folder)) == 6
        found, expected = holds(name, folder)
        assert found == expected, k
        if not killed:
            break
    assert k > 6


@every_logger
def test_catch_up_rewrites_rows_of_deleted_or_truncated_logger_files(name: str, tmp_path: Path) -> None:
    leave(tmp_path, name, rows(10))
    kept = {"metrics.jsonl", "episodes.jsonl", "loggers"}
    files = [p for p in tmp_path.rglob("*") if p.is_file() and not kept & set(p.parts)]
    assert files
    for spoil in (Path.unlink, lambda path: os.truncate(path, path.stat().st_size // 2)):
        for path in (p for p in tmp_path.rglob("*") if p.is_file() and not kept & set(p.parts)):
            spoil(path)
        assert catch_up(tmp_path, run_with(name))[name].n_missing == 0
        found, expected = holds(name, tmp_path)
        assert found == expected


@every_logger
def test_a_run_folder_without_positions_is_followed_from_its_first_row(name: str, tmp_path: Path) -> None:
    leave(tmp_path, name, rows(10))
    shutil.rmtree(tmp_path / "loggers")
    assert catch_up(tmp_path, run_with(name))[name] == follow.Delivery(13, 0, None)
    found, expected = holds(name, tmp_path)
    assert found == expected


@every_logger
def test_a_package_that_is_missing_is_named_with_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, real = LOGGERS[name].package, importlib.util.find_spec
    if package is None:
        assert check_loggers(run_with(name).logger) is None
        return
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda wanted: None if wanted == package else real(wanted)
    )
    message = rf"logger={name} needs {package}: pip install '{package}"
    with pytest.raises(MissingExtraError, match=message):
        check_loggers(run_with(name).logger)


@every_logger
def test_a_package_that_is_broken_is_named_with_how_to_install_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any) -> Sink:
        raise ImportError("no module named protobuf")

    monkeypatch.setitem(LOGGERS, name, replace(LOGGERS[name], sink=broken))
    package = LOGGERS[name].package
    told = rf"needs {package}: pip .* \(no module named protobuf" if package else "^no module"
    with pytest.raises(MissingExtraError if package else ImportError, match=told):
        journal_of(tmp_path, name, [])
