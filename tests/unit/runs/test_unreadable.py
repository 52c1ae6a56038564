"""Tests that an error names a file without read permission. rlox neither skips it nor calls it damaged."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from rlox import ReplayBuffer
from rlox.errors import StorageError
from rlox.runs.checkpoint import Checkpoint, newest_checkpoint, read_checkpoint, resolve_checkpoint
from rlox.runs.checkpoint_store import CheckpointStore

NOBODY = 65_534  # root may read a file of any mode


@contextmanager
def unreadable(path: Path) -> Iterator[None]:
    """Forbids this process to read the file or folder within the block."""
    mode, root = path.stat().st_mode, os.geteuid() == 0
    path.chmod(0)
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(mode)


@pytest.fixture
def run() -> Iterator[Path]:
    """Makes a run with two checkpoints and a buffer in a public folder, as pytest's folders are private."""
    folder = Path(tempfile.mkdtemp())
    array = np.ones(5, np.float32)
    parts = {"w": array}, {"m": array}, {"s": array}, {"log": 7}
    store = CheckpointStore(folder / "checkpoints", keep=2)
    for step in (10, 20):
        store.save(Checkpoint({}, {"env_steps": step}, *parts))
    buffer = ReplayBuffer(10, 3, 1)
    buffer.push(np.zeros(3), 0, 0, False, False, np.zeros(3))
    buffer.save(folder / "buffer")
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() else 0o644)
    yield folder
    shutil.rmtree(folder)


NEWEST = "checkpoints/step-000000000020"


@pytest.mark.parametrize(
    "name", ["manifest.json", "state.json", "weights.safetensors", "state.safetensors", ""]
)
@pytest.mark.parametrize(
    "read",
    [lambda run: read_checkpoint(run / NEWEST), newest_checkpoint, resolve_checkpoint],
    ids=["read", "newest", "resolve"],
)
def test_an_unreadable_checkpoint_is_named_and_an_older_one_not_taken_for_it(
    name: str, read: Callable[[Path], object], run: Path
) -> None:
    with (
        unreadable(run / NEWEST / name),
        pytest.raises(StorageError, match=f"cannot read .*{NEWEST}.*: Permission denied"),
    ):
        read(run)
    assert newest_checkpoint(run) == run / NEWEST


def test_a_folder_of_checkpoints_that_cannot_be_listed_is_named(run: Path) -> None:
    with (
        unreadable(run / "checkpoints"),
        pytest.raises(StorageError, match=r"cannot read .*/checkpoints: Permission denied"),
    ):
        newest_checkpoint(run)


@pytest.mark.parametrize("file", ["last.manifest", "*.seg"])
def test_an_unreadable_file_of_a_buffer_is_named_and_the_rows_stay(file: str, run: Path) -> None:
    (path,) = (run / "buffer").glob(file)
    buffer = ReplayBuffer(10, 3, 1, seed=4)
    buffer.push(np.ones(3), 1, 1, False, False, np.ones(3))
    with (
        unreadable(path),
        pytest.raises(StorageError, match=f"cannot read {path}: Permission denied"),
    ):
        buffer.load(run / "buffer")
    assert buffer.sample(1)["obs"].tolist() == [[1, 1, 1]]
    buffer.load(run / "buffer")
    assert buffer.sample(1)["obs"].tolist() == [[0, 0, 0]]
