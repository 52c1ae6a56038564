"""Tests moved, copied, packed run folders and other kinds of disks: the runs continue or give the reason."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from faults.disk import FaultyDisk
from faults.report import record
from helpers.cli import Cli
from helpers.selection import examples

from rlox import stopping
from rlox.runs import saver
from rlox.runs.checkpoint import resolve_checkpoint
from rlox_cli.runs.run_folder import read_result, read_status

DQN = (
    "algo=dqn", "tuned=null", "env=CartPole-v1", "env.n_envs=2", "algo.learning_starts=32",
    "algo.train_freq=32", "algo.net_arch=[8]", "buffer.capacity=512",
)  # fmt: skip
PPO = (
    "algo=ppo", "tuned=null", "env=CartPole-v1", "env.n_envs=2", "algo.n_steps=16",
    "algo.batch_size=32", "algo.n_epochs=1", "algo.net_arch=[8]",
)  # fmt: skip
RUN = ("total_steps=256", "checkpoint.every=64", "eval.every=64", "eval.episodes=2", "seed=3")
# Long enough for a test to notice that rlox waits for a disk without links.
PATIENT = "checkpoint.storage_timeout=1000"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Make a finished run of each kind, whose best checkpoint is not its last."""
    from rlox_cli.main import main

    found = {}
    for name, given in (("ppo", PPO), ("dqn", DQN)):
        found[name] = tmp_path_factory.mktemp(name) / "run"
        assert main(["train", *given, *RUN, PATIENT, f"hydra.run.dir={found[name]}"]) == 0
    return found


def moved(run: Path, to: Path) -> None:
    shutil.copytree(run, to / "first", symlinks=True)
    (to / "first").rename(to / "run")


def copied(run: Path, to: Path) -> None:
    shutil.copytree(run, to / "run")


def copied_with_links(run: Path, to: Path) -> None:
    shutil.copytree(run, to / "run", symlinks=True)


def copied_by_the_shell(run: Path, to: Path) -> None:
    subprocess.run(["cp", "-rL", str(run), str(to / "run")], check=True)


def zipped(run: Path, to: Path) -> None:
    """Zip by `shutil.make_archive`, which replaces a link to a folder by an empty folder."""
    archive = shutil.make_archive(str(to / "packed"), "zip", run.parent, run.name)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(to)


def zipped_with_links(run: Path, to: Path) -> None:
    """Zip by `zip -y` or `python -m zipfile`, which replace a link by a file that contains its target."""
    shutil.copytree(run, to / "run", symlinks=True)
    for link in (to / "run" / "checkpoints").iterdir():
        if link.is_symlink():
            target = link.readlink()
            link.unlink()
            link.write_text(str(target))


def tarred(run: Path, to: Path) -> None:
    archive = shutil.make_archive(str(to / "packed"), "gztar", run.parent, run.name)
    shutil.unpack_archive(archive, to, filter="data")


def without_links(run: Path, to: Path) -> None:
    shutil.copytree(run, to / "run", symlinks=True)
    for link in (to / "run" / "checkpoints").iterdir():
        if link.is_symlink():
            link.unlink()


def without_hidden_files(run: Path, to: Path) -> None:
    """Copy by `cp -r RUN/* TO`."""
    shutil.copytree(run, to / "run", ignore=shutil.ignore_patterns(".*"))


def after_a_kill_between_link_and_place(run: Path, to: Path) -> None:
    shutil.copytree(run, to / "run", symlinks=True)
    (to / "run" / "checkpoints" / ".last.new").symlink_to("step-000000000064")


WAYS: dict[str, Callable[[Path, Path], None]] = {
    way.__name__: way
    for way in (
        moved, copied, copied_with_links, copied_by_the_shell, zipped, zipped_with_links, tarred,
        without_links, without_hidden_files, after_a_kill_between_link_and_place,
    )
}  # fmt: skip


@contextmanager
def refusing(name: str, error: int, under: Path) -> Iterator[None]:
    """Simulate a disk on which every call of one kind fails with this error."""
    with FaultyDisk(1, until=10**9, error=error, only=name, under=under):
        yield


@contextmanager
def without_folder_syncs(under: Path) -> Iterator[None]:
    """Simulate a disk that syncs files but no folders."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").resolve().is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        real(descriptor)

    os.fsync = fsync
    try:
        yield
    finally:
        os.fsync = real


@contextmanager
def without_locks(under: Path) -> Iterator[None]:
    """Simulate a disk whose files cannot be locked."""
    import fcntl

    real = fcntl.flock

    def flock(*args: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    fcntl.flock = flock  # type: ignore[assignment]
    try:
        yield
    finally:
        fcntl.flock = real


DISKS: dict[str, Callable[[Path], Any]] = {
    "whole": lambda under: nullcontext(),
    "no links (EPERM)": lambda under: refusing("symlink", errno.EPERM, under),
    "no links (ENOTSUP)": lambda under: refusing("symlink", errno.ENOTSUP, under),
    "no links (ENOSYS)": lambda under: refusing("symlink", errno.ENOSYS, under),
    "no folder syncs": without_folder_syncs,
    "no locks": without_locks,
}


def best_of(run: Path) -> str:
    return resolve_checkpoint(run, "best").name


@pytest.mark.parametrize("case", range(examples(8, 60, 300)))
def test_a_moved_run_folder_resumes_evaluates_and_exports(
    case: int, before: dict[str, Path], cli: Cli, tmp_path: Path
) -> None:
    chance = random.Random(case)
    ways, disks = list(WAYS), list(DISKS)
    way = ways[case % len(ways)] if case < len(ways) else chance.choice(ways)
    disk = disks[case % len(disks)] if case < len(disks) else chance.choice(disks)
    kind = chance.choice(list(before))
    WAYS[way](before[kind], tmp_path)
    run = tmp_path / "run"
    said = f"{case}: {kind}, {way}, {disk}"
    with DISKS[disk](tmp_path):
        played = cli("evaluate", str(run), "checkpoint=best", "episodes=1")
        assert played.code == 0, (said, played.err)
        assert best_of(before[kind]) in played.out, said
        resumed = cli("resume", str(run), "total_steps=320", "eval.episodes=1")
        assert resumed.code == 0, (said, resumed.err)
        assert "resumed at step 256" in resumed.out, said
        assert read_status(run)["status"] == "done"
        assert cli("evaluate", str(run), "episodes=1").code == 0, said
        assert "step-000000000320" in cli("export", str(run)).out, said
    result = read_result(run)
    assert result is not None
    assert result["env_steps"] == 320
    kept = {path.name for path in (run / "checkpoints").iterdir()}
    steps = {name for name in kept if name.startswith("step-")}
    assert steps == {"step-000000000256", "step-000000000320", best_of(run)}, said
    assert kept - steps <= {"last", "best"}, said
    record("moved run folders", {"way": way, "disk": disk, "kind": kind})


@pytest.mark.parametrize("disk", DISKS)
def test_a_run_finishes_on_a_disk_with_missing_features(disk: str, cli: Cli, tmp_path: Path) -> None:
    with DISKS[disk](tmp_path):
        ended = cli("train", *PPO, *RUN, PATIENT, f"hydra.run.dir={tmp_path}/run")
        assert ended.code == 0, ended.err
        assert ("has no locks" in ended.err) == (disk == "no locks")
        listed = cli("list", "runs", "run_root=.")
        assert listed.out.splitlines()[1].startswith("done")
        assert cli("report", str(tmp_path / "run")).code == 0
    steps = list((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert len(steps) <= 3
    last = resolve_checkpoint(tmp_path / "run" / "checkpoints" / "last")
    assert last.resolve().name == "step-000000000256"


@pytest.mark.parametrize("call", ["open", "mkdir", "replace"])
def test_a_folder_that_cannot_be_written_is_refused_at_the_start_with_the_reason(
    call: str, before: dict[str, Path], cli: Cli, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    copied(before["ppo"], tmp_path)
    with refusing(call, errno.EROFS, run):
        resumed = cli("resume", str(run), "total_steps=320", PATIENT)
    assert resumed.code == 5
    assert "Read-only file system" in resumed.err
    assert "Traceback" not in resumed.err
    played = cli("evaluate", str(run), "checkpoint=best", "episodes=1")
    assert played.code == 0, played.err


def test_a_signal_ends_the_wait_for_a_full_disk(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 1:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(stopping, "GRACE_SECONDS", -1.0)
    monkeypatch.setattr(saver, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    full = tmp_path / "run" / "checkpoints"
    with FaultyDisk(1, until=10**9, error=errno.ENOSPC, only="open", under=full):
        ended = cli("train", *PPO, *RUN, PATIENT, "checkpoint.every=10000", f"hydra.run.dir={tmp_path}/run")
    assert ended.code == 143
    assert len(sleeps) == 1
    assert "stopped while no checkpoint could be written to the disk: there is no checkpoint yet" in ended.err
    assert read_status(tmp_path / "run")["status"] == "killed"
