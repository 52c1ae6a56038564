"""The folder of a dataset, written beside what is there and put in its place when it is whole."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlox.disk import Disk
from rlox.errors import StorageError
from rlox.sources.dataset_file import DATA_FILE, DOCUMENT_FILE

__all__ = ["other_files", "replace_dataset"]

PARTIAL_PREFIX = ".parts-"  # of a dataset that is being written; a process that was killed leaves them


def other_files(folder: Path) -> set[str]:
    """What is in `folder` beside a dataset and what an unfinished one left."""
    names = {path.name for path in folder.iterdir()} - {DATA_FILE, DOCUMENT_FILE}
    return {name for name in names if not name.startswith(PARTIAL_PREFIX)}


@contextmanager
def replace_dataset(folder: Path) -> Iterator[Path]:
    """A folder to write both files of a dataset into, forced to the device.

    Behind the block they are put in the place of those in `folder`. Where the block fails the dataset that is
    there stays as it is; half a dataset is none, so in between there is no document.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{PARTIAL_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=PARTIAL_PREFIX, ignore_cleanup_errors=True) as new:
        yield Path(new)
        try:
            (folder / DOCUMENT_FILE).unlink(missing_ok=True)
            for name in (DATA_FILE, DOCUMENT_FILE):
                (Path(new) / name).replace(folder / name)
            Disk().sync_folder(folder)
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
