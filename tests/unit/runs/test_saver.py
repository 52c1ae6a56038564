"""Tests saves that the disk refuses: rlox repeats them later."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest
from faults.disk import FaultyDisk

from rlox.configs import make_run
from rlox.disk import Disk
from rlox.errors import StorageError
from rlox.runs import saver
from rlox.runs.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint
from rlox.runs.checkpoint_store import CheckpointStore
from rlox.runs.journal import METRICS, Journal
from rlox.runs.saver import Saver


class Refusing(Disk):
    """A disk that may be full. It counts the attempted writes."""

    full = False
    writes = 0

    def write(self, path: Path, data: bytes) -> None:
        self.writes += 1
        if self.full:
            raise OSError(errno.ENOSPC, "full")
        super().write(path, data)


class Bench:
    """A saver in a folder, with a policy of one number."""

    def __init__(self, folder: Path, timeout: float = 60.0) -> None:
        self.folder, self.disk = folder, Refusing()
        config = make_run({"algo": {"name": "ppo"}, "env": {"id": "CartPole-v1"}})
        self.journal = Journal(folder, config, {})
        store = CheckpointStore(folder / "checkpoints", keep=1, disk=self.disk)
        self.saver = Saver(store, self.journal, timeout)

    def save(self, step: int, best: bool = False, wait: bool = False) -> Path | None:
        weights = {"w": np.full(3, step, np.float32)}
        self.journal.write({"env_steps": step})
        return self.saver.save(
            lambda logs, rows: Checkpoint({}, {"env_steps": step}, weights, {}, {}, logs),
            best,
            wait,
        )

    def saved(self, name: str) -> tuple[float, int]:
        """Returns the policy with this name, and the number of its log's rows."""
        found = read_checkpoint((self.folder / "checkpoints" / name).resolve())
        rows = (self.folder / METRICS).read_bytes()[: found.logs[METRICS]]
        return float(found.weights["w"][0]), rows.count(b"\n")


def test_a_retry_saves_the_refused_best_policy_and_not_a_later_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.full = True
    assert bench.save(10, best=True) is None
    assert bench.save(20) is None
    bench.disk.full = False
    bench.save(30)
    assert bench.saved("best") == (10.0, 1)
    assert bench.saved("last") == (30.0, 3)
    bench.save(40)
    assert bench.saved("best") == (10.0, 1)


def test_a_retry_saves_the_better_of_two_refused_best_policies(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.disk.full = True
    bench.save(10, best=True)
    bench.save(20, best=True)
    bench.disk.full = False
    bench.save(30)
    assert bench.saved("best") == (20.0, 2)
    assert {p.name for p in (tmp_path / "checkpoints").iterdir()} == {
        "step-000000000020", "step-000000000030", "best", "last"
    }  # fmt: skip


def test_a_refused_save_is_due_again_after_a_while_and_not_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(saver.time, "monotonic", lambda: now)
    bench = Bench(tmp_path)
    assert not bench.saver.is_retry_due
    bench.disk.full = True
    bench.save(10)
    assert not bench.saver.is_retry_due
    now = saver.RETRY_SECONDS
    assert bench.saver.is_retry_due
    bench.save(20)
    assert not bench.saver.is_retry_due
    now *= 2
    bench.disk.full = False
    bench.save(30)
    assert not bench.saver.is_retry_due
    now *= 2
    assert not bench.saver.is_retry_due


def test_a_disk_that_stays_full_is_an_error_after_the_timeout(tmp_path: Path) -> None:
    bench = Bench(tmp_path, timeout=0.0)
    bench.disk.full = True
    with pytest.raises(StorageError, match="full"):
        bench.save(10)


@pytest.mark.parametrize("refusal", [errno.EROFS, errno.EINVAL, errno.EPERM])
def test_a_save_that_the_disk_will_never_take_is_an_error_at_once(refusal: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path, timeout=1e9)
    disk = FaultyDisk(1, until=9**9, error=refusal, only="open", under=tmp_path)
    with disk, pytest.raises(StorageError, match="step-"):
        bench.save(10)


def test_a_run_that_should_give_up_does_not_wait_for_a_save(tmp_path: Path) -> None:
    bench = Bench(tmp_path, timeout=1e9)
    bench.disk.full = True
    bench.saver._should_give_up = lambda: True
    assert bench.save(10, wait=True) is None


def test_a_run_on_a_disk_without_links_keeps_the_best_and_the_last_checkpoint(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path)
    with FaultyDisk(1, until=9**9, error=errno.EPERM, only="symlink"):
        for step in (10, 20, 30, 40):
            assert bench.save(step, best=step == 20) is not None
    steps = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert steps == ["step-000000000020", "step-000000000040"]
    assert resolve_checkpoint(tmp_path, "best").name == steps[0]
    assert resolve_checkpoint(tmp_path, "last").name == steps[1]
    assert resolve_checkpoint(tmp_path / "checkpoints" / "best").name == steps[0]


def test_a_run_folder_that_is_moved_away_gets_no_checkpoint_in_its_old_place(
    tmp_path: Path,
) -> None:
    (folder := tmp_path / "run").mkdir()
    bench = Bench(folder)
    bench.save(10)
    folder.rename(tmp_path / "moved")
    with pytest.raises(StorageError, match=r"moved to .*/moved while"):
        bench.save(20)
    assert not folder.exists()
    assert read_checkpoint(tmp_path / "moved" / "checkpoints" / "last").clock == {"env_steps": 10}
