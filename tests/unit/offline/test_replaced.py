"""Tests that a write over another dataset leaves one of the two, or none, after any failure."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from faults.disk import FaultyDisk
from helpers.foreign_datasets import columns

from rlox.errors import StorageError
from rlox.offline import convert_dataset
from rlox.runs.record import make_dataset, write_dataset
from rlox.sources.dataset_file import DATA_FILE, DOCUMENT_FILE, read_dataset


def recorded(folder: Path) -> None:
    write_dataset(NEW, folder)


def from_a_folder(folder: Path) -> None:
    convert_dataset(folder.parent / "given", folder)


OLD, NEW = (make_dataset(columns(n), {"env": "Some-v0"}) for n in (120, 50))
WAYS: dict[str, Callable[[Path], None]] = {"recorded": recorded, "converted": from_a_folder}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Writes a dataset, and another one beside it that the tests read."""
    write_dataset(NEW, tmp_path / "given")
    write_dataset(OLD, tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("until", [0, 10**6])
def test_a_write_that_fails_anywhere_leaves_the_old_dataset_or_the_new_one(
    way: str, until: int, folder: Path
) -> None:
    found, failing = list[str](), 1
    while True:
        disk = FaultyDisk(failing, until=until or failing, torn=5, under=folder)
        with disk, suppress(OSError):
            WAYS[way](folder)
        if not disk.failed:
            break
        if (folder / DOCUMENT_FILE).exists():
            found.append({OLD.digest: "old", NEW.digest: "new"}[read_dataset(folder).digest])
        else:  # it failed between removing the old document and writing the new one
            found.append("none")
        WAYS[way](folder)
        assert {path.name for path in folder.iterdir()} == {DATA_FILE, DOCUMENT_FILE}
        assert read_dataset(folder).digest == NEW.digest
        write_dataset(OLD, folder)
        failing += 1
    assert found.count("old") > 5
    assert found.count("none") <= 2


def test_a_full_disk_raises_an_error_and_keeps_the_old_dataset(folder: Path) -> None:
    full = FaultyDisk(1, until=10**6, error=errno.ENOSPC, only="write", under=folder)
    with full, pytest.raises(StorageError, match=r"cannot write .*No space left"):
        write_dataset(NEW, folder)
    assert {path.name for path in folder.iterdir()} == {DATA_FILE, DOCUMENT_FILE}
    assert read_dataset(folder).digest == OLD.digest
