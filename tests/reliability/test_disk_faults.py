"""Tests that the newest whole checkpoint is found after any disk error and any kill."""

from __future__ import annotations

import errno
import itertools
import json
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.child import ChildServer, marks, reached
from faults.disk import FaultyDisk
from faults.fingerprint import difference, fingerprint
from faults.report import record
from helpers.selection import FULL
from helpers.small_ppo import small_ppo
from helpers.waiting import until

from rlox.build import build
from rlox.configs import make_run
from rlox.errors import StorageError
from rlox.runs.checkpoint import (
    Checkpoint,
    newest_checkpoint,
    read_checkpoint,
    resolve_checkpoint,
    write_checkpoint,
)
from rlox.runs.checkpoint_store import CheckpointStore
from rlox.runs.session import Session

KILLED = -signal.SIGKILL
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO}


def checkpoint(step: int, mark: float) -> Checkpoint:
    array = np.full(5, mark, np.float32)
    return Checkpoint({}, {"env_steps": step}, {"w": array}, {"m": array}, {"s": array}, {"log": 7})


def mark_of(folder: Path) -> float:
    """Return the mark of a checkpoint; all its parts must have the same one."""
    saved = read_checkpoint(folder)
    marks = {float(a[0]) for a in (saved.weights["w"], saved.optimizer["m"], saved.state["s"])}
    (mark,) = marks
    return mark


def save_next(run: Path) -> None:
    """Save step 20 in a store with step 10; keep=1 then removes step 10."""
    CheckpointStore(run / "checkpoints", keep=1).save(checkpoint(20, 2.0), best=True)


def save_again(run: Path) -> None:
    """Save step 10 again, after it was read; only its log offsets change."""
    there = checkpoint(10, 1.0)
    store = CheckpointStore(run / "checkpoints", keep=1, resume_checkpoint=there)
    store.save(replace(there, logs={"log": 9}))


def save_over(run: Path) -> None:
    """Replace a checkpoint at the user's own path by another one."""
    write_checkpoint(run / "mine", checkpoint(20, 2.0))


SAVES: dict[str, tuple[Callable[[Path], None], Callable[[Path], Path | None], float]] = {
    "the next step": (save_next, newest_checkpoint, 2.0),
    "the same step again": (save_again, newest_checkpoint, 1.0),
    "over another": (save_over, lambda run: resolve_checkpoint(run / "mine"), 2.0),
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    CheckpointStore(folder / "checkpoints", keep=1).save(checkpoint(10, 1.0))
    write_checkpoint(folder / "mine", checkpoint(10, 1.0))
    return folder


@pytest.mark.parametrize("what", SAVES)
@pytest.mark.parametrize(("error", "torn"), [("full", 30), ("broken", 0)])
def test_an_error_in_any_disk_call_of_a_save_keeps_a_whole_checkpoint(
    what: str, error: str, torn: int, before: Path, tmp_path: Path
) -> None:
    save, find, new = SAVES[what]
    failed: list[str] = []
    for k in itertools.count(1):
        run = shutil.copytree(before, tmp_path / str(k), symlinks=True)
        with FaultyDisk(k, error=ERRORS[error], torn=torn) as disk, suppress(StorageError):
            save(run)
        found = find(run)
        assert found is not None, (k, disk.calls)
        assert mark_of(found) in (1.0, new), (k, disk.calls)
        save(run)  # now the disk works again
        found = find(run)
        assert found is not None and mark_of(found) == new
        if not disk.failed:
            break
        failed += disk.failed
    assert {"open", "write", "fsync", "replace"} <= set(failed)
    assert "symlink" in failed or what == "over another"
    record(f"disk call fails: {what}, {error}, torn {torn}", {"calls": len(failed), "lost": 0})


@pytest.mark.parametrize("what", SAVES)
def test_a_disk_that_stays_broken_costs_no_checkpoint(what: str, before: Path, tmp_path: Path) -> None:
    save, find, new = SAVES[what]
    for k in itertools.count(1):
        run = shutil.copytree(before, tmp_path / str(k), symlinks=True)
        with FaultyDisk(k, until=10**6, error=errno.EIO, torn=10) as disk, suppress(StorageError):
            save(run)
        found = find(run)
        assert found is not None, (k, disk.calls)
        assert mark_of(found) in (1.0, new)
        if not disk.failed:
            break


def killed_at(k: int, save: Callable[[Path], None], run: Path) -> bool:
    """Fork, save, and SIGKILL the child in disk call k; return whether the child came that far."""
    import os

    if (pid := os.fork()) == 0:
        with FaultyDisk(k, error=None, torn=30):
            save(run)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == KILLED


@pytest.mark.parametrize("what", SAVES)
def test_a_kill_in_any_disk_call_of_a_save_keeps_a_whole_checkpoint(
    what: str, before: Path, tmp_path: Path
) -> None:
    save, find, new = SAVES[what]
    for k in itertools.count(1):
        run = shutil.copytree(before, tmp_path / str(k), symlinks=True)
        killed = killed_at(k, save, run)
        found = find(run)
        assert found is not None, k
        assert mark_of(found) in (1.0, new), k
        save(run)  # a later process cleans up
        found = find(run)
        assert found is not None and mark_of(found) == new
        left = [p.name for p in (run / "checkpoints").iterdir() if p.name.startswith(".step")]
        assert left == []
        if not killed:
            break
    assert k > (7 if what == "the same step again" else 15)
    record(f"killed in a disk call: {what}", {"kills": k - 1, "lost": 0})


@pytest.fixture(scope="module")
def nursery() -> Iterator[ChildServer]:
    with ChildServer() as made:
        yield made


ROLLOUT = 128


def config(updates: int, **options: Any) -> dict[str, Any]:
    return {
        "algo": small_ppo(net_arch=[16], batch_size=64),
        "env": {"id": "CartPole-v1", "n_envs": 8},
        "total_steps": updates * ROLLOUT,
        "checkpoint": {"every": ROLLOUT},
        "log": {"every": ROLLOUT},
        "eval": {"episodes": 1},
        "device": "cpu",
        **options,
    }


def test_kills_at_random_times_while_every_update_is_saved_lose_at_most_one(
    nursery: ChildServer, tmp_path: Path
) -> None:
    chance, kills = random.Random(8), 200 if FULL else 15
    steps: list[int] = []
    torn = 0
    for number in range(kills):
        pid = nursery.start(tmp_path, config(10**7), resume=True)
        # kill the first process before it saves, each later one some saves after the last checkpoint
        at = reached(tmp_path) + chance.randint(1, 9) * ROLLOUT if number else 0
        assert nursery.kill(pid, tmp_path, at, chance.uniform(0, 0.02)) == KILLED
        newest = newest_checkpoint(tmp_path)
        torn += any(p.name.startswith(".step") for p in (tmp_path / "checkpoints").glob(".*"))
        if newest is None:  # killed before its first save
            assert number == 0
            continue
        step = read_checkpoint(newest).clock["env_steps"]
        assert step >= reached(tmp_path)
        steps.append(step)
    print("  newest step after each kill:", *steps)
    record("kills while saving", {"kills": kills, "inside a save": torn, "unreadable": 0})
    assert steps == sorted(steps)
    assert len(steps) >= kills - 1


@pytest.mark.parametrize("last", [20, 10**6], ids=["mid-run", "at the end"])
def test_a_full_disk_costs_no_row_and_no_checkpoint(last: int, nursery: ChildServer, tmp_path: Path) -> None:
    whole, full = tmp_path / "whole", tmp_path / "full"
    assert nursery.run(whole, config(30)) == 0
    between = [10 * ROLLOUT, last * ROLLOUT]
    assert nursery.run(full, config(30), full_disk=between) == 0
    allowed = {"folders"} if last > 30 else set()  # no save before the last one had space
    assert set(difference(fingerprint(full), fingerprint(whole))) <= allowed
    warned = (full / "warnings.txt").read_text().splitlines()
    assert len(warned) == len({w.split(":")[0] for w in warned}), "one warning for each thing"
    assert 1 <= len(warned) <= 3
    assert all(str(full) in w for w in warned)
    assert (whole / "warnings.txt").read_text() == ""


def test_a_disk_that_stays_full_ends_the_run_after_the_timeout_with_the_checkpoint_intact(
    nursery: ChildServer, tmp_path: Path
) -> None:
    patience = {"every": ROLLOUT, "storage_timeout": 0.2}
    code = nursery.run(tmp_path, config(10**6, checkpoint=patience), full_disk=[1280, 10**9])
    assert code == 3
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    assert read_checkpoint(newest).clock["env_steps"] == 1280


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting is not allowed here; the other tests use RLIMIT_FSIZE")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)  # a failed test may have left a run


@pytest.mark.parametrize("last", [40, 60], ids=["mid-run", "at the end"])
def test_a_real_full_disk_costs_nothing(
    last: int, small_disk: Path, nursery: ChildServer, tmp_path: Path
) -> None:
    made = config(60)
    assert nursery.run(small_disk / "whole", made) == 0
    fill, free = 20 * ROLLOUT, last * ROLLOUT
    # at the end, the run waits for space by itself
    gates = [(fill, str(tmp_path / "filled")), (40 * ROLLOUT, str(tmp_path / "freed"))]
    run = small_disk / "run"
    pid = nursery.start(run, made, gates=gates[: 2 if last == 40 else 1])
    until(lambda: reached(run) == fill, "run that waits for a full disk")
    with (small_disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    (tmp_path / "filled").touch()
    until(lambda: reached(run) == free, "run that has saved what it could")
    time.sleep(60 if FULL else 0)
    (small_disk / "filler").unlink()
    (tmp_path / "freed").touch()
    assert nursery.wait(pid) == 0
    assert (run / "warnings.txt").read_text().count("\n") in (1, 2, 3)
    differing = difference(fingerprint(run), fingerprint(small_disk / "whole"))
    assert set(differing) <= {"folders"}  # only if no save before the last one had space


@pytest.mark.parametrize("place", ["under a file", "in proc"])
def test_a_folder_that_cannot_be_written_is_one_clear_error(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "run" if place == "under a file" else Path("/proc/rlox-run")
    algorithm = build(make_run(config(1)))
    with pytest.raises(StorageError, match=str(folder)) as caught:
        Session(algorithm, folder).run()
    assert len(str(caught.value).splitlines()) == 1
    assert algorithm.clock.env_steps == 0


def test_faulty_disk_counts_calls_and_fails_the_selected_one(tmp_path: Path) -> None:
    with FaultyDisk(3, error=errno.EIO, torn=4) as disk, pytest.raises(OSError) as caught:
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(b"0123456789")
    assert caught.value.errno == errno.EIO
    assert disk.calls[:3] == ["open", "write", "open"]
    assert (tmp_path / "a").read_bytes() == b"0123456789"
    with FaultyDisk(2, error=errno.EIO, torn=4, until=9), pytest.raises(OSError):
        (tmp_path / "c").write_bytes(b"0123456789")
    assert (tmp_path / "c").read_bytes()[:4] == b"0123"
    (tmp_path / "d").write_text(json.dumps({}))
    assert marks(tmp_path) == []
