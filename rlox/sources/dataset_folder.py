"""Write a dataset folder: new files go to a temporary folder and replace the old ones when complete."""

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

PARTIAL_PREFIX = ".parts-"  # of a temporary folder's name; a killed process leaves the folder behind


def other_files(folder: Path) -> set[str]:
    """Return the names in `folder` besides a dataset's files and leftovers of an unfinished write."""
    names = {path.name for path in folder.iterdir()} - {DATA_FILE, DOCUMENT_FILE}
    return {name for name in names if not name.startswith(PARTIAL_PREFIX)}


@contextmanager
def replace_dataset(folder: Path) -> Iterator[Path]:
    """Yield a folder for both files of a dataset; the block must sync them to disk.

    After the block the new files replace those in `folder`. If the block fails, the old dataset stays
    unchanged. The document is removed first and written last, so an interrupted replacement never looks
    complete.
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
