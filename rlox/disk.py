"""Crash-safe writes: data is flushed, synced and renamed into place."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from rlox.errors import ConfigError, StorageError

__all__ = [
    "Disk",
    "FolderIdentity",
    "append_file",
    "is_transient",
    "link_target",
    "lock_file",
    "make_folder",
    "open_file",
    "open_nonblocking",
    "parse_folder_path",
    "parse_path",
    "read_file",
    "replace_file",
]

# Errors that retrying cannot fix: the file system does not support the operation, or the path is taken.
# EFBIG (a file above the size limit) is not among them: `prlimit` can raise the limit of a running process.
_PERMANENT_ERRNOS = frozenset(
    {
        errno.EEXIST,
        errno.EILSEQ,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOSYS,
        errno.ENOTDIR,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)
_MAX_NAME_BYTES = 255  # on every file system


def is_transient(error: OSError) -> bool:
    """Return whether retrying may help: with a full disk it may, on a disk without links it does not."""
    cause = error.__cause__ if error.errno is None else error
    return not (isinstance(cause, OSError) and cause.errno in _PERMANENT_ERRNOS)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading; raise `OSError` for a pipe, socket or device, which could block forever."""
    file = open(path, "rb", opener=open_nonblocking)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is a pipe, a socket or a device, expected a file", str(path))
    return file


def open_nonblocking(path: str, flags: int) -> int:
    """An `opener` for `open()` that does not wait for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_file(path: Path) -> bytes:
    """Return the bytes of a file; raises the same `OSError` as `open_file`."""
    with open_file(path) as file:
        return file.read()


def lock_file(descriptor: int) -> bool:
    """Lock an open file for this process; return False if the file system has no locks.

    The kernel releases the lock when the process ends, however it ends. Raises `BlockingIOError` if another
    process holds the lock.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in _PERMANENT_ERRNOS | {errno.ENOLCK}:
            raise
        return False
    return True


def link_target(path: Path) -> str | None:
    """Return the target of a link made by `Disk.link`, or the name in the file that replaces it; else `None`.

    Git, zip and disks without links store a link as a file that contains the name.
    """
    with suppress(OSError, UnicodeDecodeError):
        if path.is_symlink():
            return str(path.readlink())
        if path.is_file() and path.stat().st_size <= _MAX_NAME_BYTES:
            return path.read_text("utf-8").strip()
    return None


def parse_path(value: Any, name: str) -> Path:
    """Return the argument `name` as a path; raise `ConfigError` if it is not one."""
    try:
        path = Path(value)
    except TypeError as error:
        type_name = type(value).__name__
        raise ConfigError(f"{name}={value!r}: a {type_name}, expected text or a pathlib.Path") from error
    if "\0" in str(path):
        raise ConfigError(f"{name}={value!r}: no path has a null character; leave it out")
    return path


def parse_folder_path(value: Any, name: str) -> Path:
    """Return the path of a folder that is written under a temporary name and renamed.

    Raises `ConfigError` for a path without a name, `StorageError` for one that cannot be looked up.
    """
    path = parse_path(value, name)
    if path.name in ("", ".."):
        raise ConfigError(
            f"{name}={str(value)!r}: the folder is written under a temporary name and renamed, so it needs "
            f"a name of its own; give it one, {name}={str(path / 'checkpoint')!r}"
        )
    try:
        path.is_symlink()
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    return path


def make_folder(path: Path) -> None:
    """Create a folder if it does not exist; raise `StorageError` if it cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise StorageError(f"the folder {path} cannot be written: {error.strerror}; name another") from error


class FolderIdentity:
    """Identifies a folder by its inode, so that a folder that is moved during a run is not created again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stat = path.stat()

    def require_unmoved(self) -> None:
        """Raise `StorageError` if the folder is no longer at its path; name its new path if known."""
        try:
            if os.path.samestat(self.path.stat(), self._stat):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # an I/O error does not show that the folder was moved
            return
        new_path = self._find_sibling()
        target = shlex.quote(str(new_path)) if new_path else "FOLDER"
        change_text = f"moved to {new_path}" if new_path else "moved or removed"
        raise StorageError(
            f"{self.path} was {change_text} while the run was writing to it: the run ends, and nothing is "
            f"written in its place\n  to go on from its last checkpoint: rlox resume {target}"
        )

    def _find_sibling(self) -> Path | None:
        """Return the folder's new path if it is in the same parent folder."""
        with suppress(OSError):
            for path in self.path.parent.iterdir():
                with suppress(OSError):
                    if os.path.samestat(path.lstat(), self._stat):
                        return path
        return None


class Disk:
    """The file operations of a checkpoint; tests replace it with a faulty one."""

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        """Write a new file and sync it to the device; raise `OSError` if the path is a link."""
        with open(path, "wb", opener=_open_without_links) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """Sync a folder's entries to the device, if the file system supports it."""
        try:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            if is_transient(error):  # CIFS and VirtualBox refuse to sync any folder
                raise

    def rename(self, old: Path, new: Path) -> None:
        """Rename `old` to `new` atomically, replacing `new`."""
        old.replace(new)

    def link(self, path: Path, target: str) -> None:
        """Point the relative symlink `path` at `target`, replacing it atomically.

        If the disk does not support links, write a file that contains the name (`link_target`).
        """
        temporary = path.with_name(f".{path.name}.new")
        try:
            temporary.unlink(missing_ok=True)
            try:
                temporary.symlink_to(target, target_is_directory=True)
            except OSError:
                self.write(temporary, target.encode())
            temporary.replace(path)
        except OSError:
            with suppress(OSError):  # leave no temporary link behind
                temporary.unlink(missing_ok=True)
            raise

    def remove(self, path: Path) -> None:
        """Delete a folder and its contents."""
        shutil.rmtree(path, ignore_errors=True)


def replace_file(path: Path, data: bytes, disk: Disk | None = None) -> None:
    """Replace `path` so that a crash leaves either the old or the new bytes, never a mix."""
    disk = disk or Disk()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        disk.write(temporary, data)
        disk.rename(temporary, path)
        disk.sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def append_file(path: Path, data: bytes) -> None:
    """Append to `path` and sync it to the device; a crash may leave a part of `data`."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _open_without_links(path: str, flags: int) -> int:
    """Open `path` without following a symlink: a folder from elsewhere may contain one."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
