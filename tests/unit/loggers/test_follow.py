"""Tests that a follower sends each row once, independently of the run, and continues where it stopped."""

from __future__ import annotations

import json
import logging
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.waiting import PATIENCE, until

from rlox.errors import StorageError
from rlox.loggers import METRICS, Follower, JsonLines, Row, catch_up, finish, follow
from rlox.loggers.follow import Delivery


class Memory:
    """A sink in memory that outlives its followers; `refuse` may raise before a write."""

    def __init__(self, refuse: Callable[[], object] = lambda: None, takes_back: bool = True) -> None:
        self.steps: list[int] = []
        self.opened: list[int] = []
        self.closed = self.finished = self.abandoned = 0
        self.refuse, self.takes_back = refuse, takes_back

    def open(self, rows: int) -> int:
        self.opened.append(rows)
        if not self.takes_back:
            return rows
        del self.steps[rows:]
        return len(self.steps)

    def write(self, rows: Sequence[Row]) -> None:
        self.refuse()
        self.steps += [int(row["env_steps"] or 0) for row in rows]

    def finish(self) -> None:
        self.finished += 1

    def close(self) -> None:
        self.closed += 1

    def abandon(self) -> None:
        self.abandoned += 1


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(follow, "RETRY_SECONDS", 0.001)


def add(folder: Path, steps: Sequence[int], keep: int | None = None) -> None:
    """Append rows to `metrics.jsonl`, after its first `keep` bytes or after all of them."""
    file = folder / METRICS
    size = file.stat().st_size if file.exists() else 0
    log = JsonLines(file, size if keep is None else keep)
    for step in steps:
        log.write({"env_steps": step})
    log.close()


def followed(folder: Path, sink: Memory, in_vain: bool = False) -> Delivery:
    """Return what a follower delivers of the present file; with `in_vain`, until its second attempt."""
    follower = Follower("memory", sink, folder)
    follower.start()
    if in_vain:
        until(lambda: len(sink.opened) > 1, "second attempt")
    return finish([follower], 0.0 if in_vain else PATIENCE)["memory"]


def stored(folder: Path) -> dict[str, int]:
    found: dict[str, int] = json.loads((folder / "loggers" / "memory.json").read_text())
    return found


def test_rows_arrive_while_they_are_written_and_the_position_is_stored_behind_them(
    tmp_path: Path,
) -> None:
    sink = Memory()
    add(tmp_path, [1, 2])
    follower = Follower("memory", sink, tmp_path)
    follower.start()
    until(lambda: sink.steps == [1, 2], "two rows")
    add(tmp_path, [3])
    until(lambda: sink.steps == [1, 2, 3], "third row")
    size = (tmp_path / METRICS).stat().st_size
    until(lambda: stored(tmp_path) == {"offset": size, "rows": 3}, "position behind the third row")
    assert finish([follower], PATIENCE)["memory"] == Delivery(3, 0, None)
    assert (sink.opened, sink.closed) == ([0], 1)


def test_the_next_follower_goes_on_from_the_stored_position(tmp_path: Path) -> None:
    sink = Memory(takes_back=False)
    add(tmp_path, [1, 2])
    followed(tmp_path, sink)
    add(tmp_path, [3, 4, 5])
    assert followed(tmp_path, sink) == Delivery(3, 0, None)
    assert sink.steps == [1, 2, 3, 4, 5]
    assert sink.opened == [0, 2]


def test_a_row_that_is_half_written_waits_for_its_end(tmp_path: Path) -> None:
    sink = Memory()
    (tmp_path / METRICS).write_bytes(b'{"env_steps": 1}\n{"env_steps": 22}')
    followed(tmp_path, sink)
    assert sink.steps == [1]
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b"\n")
    followed(tmp_path, sink)
    assert sink.steps == [1, 22]


def test_rewind_stores_the_position_before_the_log_is_cut(
    tmp_path: Path,
) -> None:
    sink = Memory()
    add(tmp_path, [1, 2, 3, 4])
    followed(tmp_path, sink)
    two = len(b'{"env_steps": 1}\n') * 2
    Follower("memory", sink, tmp_path).rewind(two)
    assert stored(tmp_path) == {"offset": two, "rows": 2}
    add(tmp_path, [30, 40], keep=two)
    followed(tmp_path, sink)
    assert sink.steps == [1, 2, 30, 40]
    Follower("memory", sink, tmp_path).rewind(10**9)
    assert stored(tmp_path)["rows"] == 4


def test_a_transient_error_is_told_once_and_caught_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    left = iter(range(3))

    def refuse() -> None:
        if next(left, None) is not None:
            raise ConnectionError("reset by peer")

    sink = Memory(refuse)
    add(tmp_path, [1, 2])
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "rlox.loggers"):
        warnings.simplefilter("error")
        assert followed(tmp_path, sink) == Delivery(2, 0, None)
    assert sink.steps == [1, 2]
    assert sink.opened == [0, 0, 0, 0]
    assert [r.getMessage() for r in caplog.records] == [
        "logger memory: reset by peer; rlox tries again and sends the missing rows"
    ]


def test_pauses_between_attempts_grow_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waited.append(timeout)
            if len(waited) == 6:
                self.set()
            return super().wait(0)

    def refuse() -> None:
        if len(waited) < 6:
            raise ConnectionError

    monkeypatch.setattr(follow, "MAX_RETRY_SECONDS", 0.008)
    add(tmp_path, [1])
    follower = Follower("memory", Memory(refuse), tmp_path)
    follower._end_event = Watched()
    follower.start()
    until(lambda: not follower._thread.is_alive(), "end of the follower")
    assert waited[:6] == [0.001, 0.002, 0.004, 0.008, 0.008, 0.008]


def test_a_follower_sends_a_backlog_in_batches_and_pauses_after_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MAX_BATCH", 3)
    monkeypatch.setattr(follow, "PAUSE_SECONDS", 10 * PATIENCE)
    waited: list[tuple[int, float | None]] = []

    class Watched(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append((len(sink.steps), timeout))
            return super().wait(timeout)

    sink = Memory()
    add(tmp_path, range(10))
    follower = Follower("memory", sink, tmp_path)
    follower._end_event = Watched()
    follower.start()
    until(lambda: len(waited) == 4, "pause")
    assert [rows for rows, _ in waited] == [3, 6, 9, 10]
    assert [seconds == 10 * PATIENCE for _, seconds in waited] == [False, False, False, True]
    add(tmp_path, [10])
    assert finish([follower], PATIENCE)["memory"] == Delivery(11, 0, None)


def test_a_follower_reports_the_rows_that_a_broken_sink_lacks(
    tmp_path: Path,
) -> None:
    def refuse() -> None:
        raise ConnectionError("no such server")

    sink = Memory(refuse)
    add(tmp_path, [1, 2, 3])
    message = "memory lacks 3 rows: no such server; metrics.jsonl has every row. To send .*catch_up"
    with pytest.warns(UserWarning, match=message):
        found = followed(tmp_path, sink, in_vain=True)
    assert (found.n_sent, found.n_missing) == (0, 3)
    assert isinstance(found.error, ConnectionError)
    until(lambda: sink.closed == 1, "closed sink")
    assert not (tmp_path / "loggers").exists()


def test_the_end_of_a_run_waits_once_for_all_of_its_loggers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waited = 100.0, []

    class Waits(Follower):
        def wait(self, timeout: float) -> Delivery:
            nonlocal now
            waited.append(timeout)
            now += timeout
            return super().wait(0.0)

    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: now, sleep=time.sleep))
    gate = threading.Event()
    sinks = [Memory(lambda: gate.wait(PATIENCE)) for _ in range(5)]
    add(tmp_path, [1])
    followers = [Waits(str(i), sink, tmp_path) for i, sink in enumerate(sinks)]
    for follower in followers:
        follower.start()
    with pytest.warns(UserWarning, match="lacks 1 rows: it did not take them in time"):
        found = finish(followers, 16.0)
    assert waited == [16.0, 0.0, 0.0, 0.0, 0.0]
    assert {d.n_missing for d in found.values()} == {1}
    gate.set()
    until(lambda: all(sink.closed for sink in sinks), "five closed sinks")


def test_an_abandoned_sink_logs_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entered, cut = threading.Event(), threading.Event()

    def refuse() -> None:
        entered.set()
        assert cut.wait(PATIENCE)
        raise StorageError("the process that sends died")

    sink = Memory(refuse)
    sink.abandon = cut.set  # type: ignore[method-assign]
    add(tmp_path, [1])
    follower = Follower("memory", sink, tmp_path)
    follower.start()
    assert entered.wait(PATIENCE)
    with pytest.warns(UserWarning, match="did not take them in time"):
        finish([follower], 0.0)
    until(lambda: sink.closed == 1, "closed sink")
    assert "died" not in caplog.text


def test_the_next_follower_waits_for_an_abandoned_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joins = threading.Event()
    entered, gate = threading.Event(), threading.Event()

    def refuse() -> None:
        entered.set()
        assert gate.wait(PATIENCE)

    sink = Memory(refuse)
    add(tmp_path, [1, 2])
    first = Follower("memory", sink, tmp_path)
    first.start()
    assert entered.wait(PATIENCE)
    with pytest.warns(UserWarning, match="lacks 2 rows"):
        finish([first], 0.0)
    join = first._thread.join

    def joined(timeout: float | None = None) -> None:
        joins.set()
        join(timeout)

    monkeypatch.setattr(first._thread, "join", joined)
    second = Follower("memory", sink, tmp_path)
    second.start()
    assert joins.wait(PATIENCE), "the second follower does not wait for the first"
    assert sink.opened == [0]
    gate.set()
    assert finish([second], PATIENCE)["memory"] == Delivery(2, 0, None)
    assert sink.steps == [1, 2]


def test_a_sink_that_fails_only_in_closing_is_reported(tmp_path: Path) -> None:
    class Fails(Memory):
        def close(self) -> None:
            raise OSError("gone")

    add(tmp_path, [1])
    with pytest.warns(UserWarning, match="logger memory is not known to have every row: gone"):
        found = followed(tmp_path, Fails())
    assert (found.n_sent, found.n_missing) == (1, 0)


def test_an_unstored_position_repeats_rows_only_in_append_only_sinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for takes_back, steps in ((True, [1, 2, 3]), (False, [1, 2, 3, 3])):
        folder = tmp_path / str(takes_back)
        folder.mkdir()
        sink = Memory(takes_back=takes_back)
        add(folder, [1, 2])
        followed(folder, sink)
        before = (folder / "loggers" / "memory.json").read_bytes()
        add(folder, [3])
        followed(folder, sink)
        (folder / "loggers" / "memory.json").write_bytes(before)
        followed(folder, sink)
        assert sink.steps == steps


@pytest.mark.parametrize("content", [b"", b"{}", b'{"offset": "x", "rows": 1}', b"\x00\xff", b"[]"])
def test_a_damaged_position_begins_anew(content: bytes, tmp_path: Path) -> None:
    sink = Memory()
    add(tmp_path, [1, 2])
    followed(tmp_path, sink)
    (tmp_path / "loggers" / "memory.json").write_bytes(content)
    assert followed(tmp_path, sink) == Delivery(2, 0, None)
    assert sink.steps == [1, 2]


@pytest.mark.parametrize("offset", [20, 10**6])
def test_an_invalid_position_moves_back_to_the_end_of_a_row(offset: int, tmp_path: Path) -> None:
    sink = Memory()
    add(tmp_path, [1, 2])
    followed(tmp_path, sink)
    (tmp_path / "loggers" / "memory.json").write_text(json.dumps({"offset": offset, "rows": 9}))
    sink.steps = [1] if offset == 20 else [1, 2]
    assert followed(tmp_path, sink).n_sent == (1 if offset == 20 else 0)
    assert sink.steps == [1, 2]


def test_a_position_that_cannot_be_stored_is_an_error_and_no_row_is_lost(tmp_path: Path) -> None:
    sink = Memory(takes_back=False)
    add(tmp_path, [1, 2])
    (tmp_path / "loggers").write_text("in the way")
    with pytest.warns(UserWarning, match=r"is not known to have every row: cannot write .*memory\.json"):
        assert followed(tmp_path, sink, in_vain=True).n_missing == 0
    assert sink.steps == [1, 2]


def test_catching_up_needs_a_run_folder(tmp_path: Path) -> None:
    from rlox.configs import make_run

    with pytest.raises(StorageError, match=r"has no metrics\.jsonl; name the folder of a run"):
        catch_up(tmp_path, make_run({"logger": {"csv": {"name": "csv"}}}))
