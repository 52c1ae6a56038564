"""Writes that a crash leaves whole: flushed, synced, renamed into place."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from rlox.errors import StorageError

__all__ = ["Disk", "append_file", "replace_file"]


class Disk:
    """The file operations a checkpoint needs; tests put a faulty one in its place."""

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        """Write a new file and force it to the device."""
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """Force a folder's entries to the device."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Put `old` in the place of `new` in one step."""
        old.replace(new)

    def link(self, path: Path, target: str) -> None:
        """Point the relative symlink `path` at `target`, replacing it in one step."""
        new = path.with_name(f".{path.name}.new")
        new.unlink(missing_ok=True)
        new.symlink_to(target, target_is_directory=True)
        new.replace(path)

    def remove(self, path: Path) -> None:
        """Delete a folder and what is in it."""
        shutil.rmtree(path, ignore_errors=True)


def replace_file(path: Path, data: bytes, disk: Disk | None = None) -> None:
    """Replace `path` so that a crash leaves the old bytes or the new, never a mix."""
    disk = disk or Disk()
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        disk.write(new, data)
        disk.rename(new, path)
        disk.sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def append_file(path: Path, data: bytes) -> None:
    """Write behind the end of `path` and force it to the device; a crash may leave a part of it."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
