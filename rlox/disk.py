"""Writes that a crash leaves whole: flushed, synced, renamed into place."""

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

# Errors that waiting does not end: the file system cannot do it, or something else is in the place. EFBIG is
# none of them: `prlimit` raises the limit of a running process.
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
_MAX_NAME_BYTES = 255  # bytes, on every file system


def is_transient(error: OSError) -> bool:
    """Whether to try again may help: a full disk is freed, one without links stays without."""
    cause = error.__cause__ if error.errno is None else error
    return not (isinstance(cause, OSError) and cause.errno in _PERMANENT_ERRNOS)


def open_file(path: Path) -> BinaryIO:
    """Open a file to read; `OSError` for a pipe, a socket or a device, whose other end may never come."""
    file = open(path, "rb", opener=open_nonblocking)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is a pipe, a socket or a device, expected a file", str(path))
    return file


def open_nonblocking(path: str, flags: int) -> int:
    """An opener that does not wait for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_file(path: Path) -> bytes:
    """The bytes of a file; `OSError` as `open_file`."""
    with open_file(path) as file:
        return file.read()


def lock_file(descriptor: int) -> bool:
    """Lock an open file for this process; false on a disk that has no locks.

    The kernel drops the lock when the process dies, however it dies. `BlockingIOError` where another
    process has it.
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
    """The name in a link of `Disk.link`, or in the file that stands in its place; else `None`.

    Git, zip and disks without links leave a file with the name in it.
    """
    with suppress(OSError, UnicodeDecodeError):
        if path.is_symlink():
            return str(path.readlink())
        if path.is_file() and path.stat().st_size <= _MAX_NAME_BYTES:
            return path.read_text("utf-8").strip()
    return None


def parse_path(value: Any, name: str) -> Path:
    """A path that was given as `name`; `ConfigError` for what is none."""
    try:
        path = Path(value)
    except TypeError as error:
        type_name = type(value).__name__
        raise ConfigError(f"{name}={value!r}: a {type_name}, expected text or a pathlib.Path") from error
    if "\0" in str(path):
        raise ConfigError(f"{name}={value!r}: no path has a null character; leave it out")
    return path


def parse_folder_path(value: Any, name: str) -> Path:
    """The path of a folder that is written as a whole, beside others; `ConfigError` for one without a name.

    `StorageError` for one that cannot be looked for.
    """
    path = parse_path(value, name)
    if path.name in ("", ".."):
        raise ConfigError(
            f"{name}={str(value)!r}: the folder is written beside others and put into its place, so that it "
            f"needs a name of its own; give it one, {name}={str(path / 'checkpoint')!r}"
        )
    try:
        path.is_symlink()
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    return path


def make_folder(path: Path) -> None:
    """Make a folder where there is none; `StorageError` for one that cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise StorageError(f"the folder {path} cannot be written: {error.strerror}; name another") from error


class FolderIdentity:
    """A folder as it was found. What is moved away while it is written to is not made anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stat = path.stat()

    def require_unmoved(self) -> None:
        """`StorageError` where the folder is not at its path any more; it says where it is, if near."""
        try:
            if os.path.samestat(self.path.stat(), self._stat):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # a disk that fails tells nothing about where the folder is
            return
        new_path = self._find_sibling()
        target = shlex.quote(str(new_path)) if new_path else "FOLDER"
        change_text = f"moved to {new_path}" if new_path else "moved or removed"
        raise StorageError(
            f"{self.path} was {change_text} while the run was writing to it: the run ends, and nothing is "
            f"written in its place\n  to go on from its last checkpoint: rlox resume {target}"
        )

    def _find_sibling(self) -> Path | None:
        """Where the folder is, of the places beside it."""
        with suppress(OSError):
            for path in self.path.parent.iterdir():
                with suppress(OSError):
                    if os.path.samestat(path.lstat(), self._stat):
                        return path
        return None


class Disk:
    """The file operations a checkpoint needs; tests put a faulty one in its place."""

    def make_folder(self, path: Path) -> None:
        """Create a folder and its parents."""
        path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, data: bytes) -> None:
        """Write a new file and force it to the device; `OSError` where a link is in its place."""
        with open(path, "wb", opener=_open_without_links) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """Force a folder's entries to the device, where the file system can."""
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
        """Put `old` in the place of `new` in one step."""
        old.replace(new)

    def link(self, path: Path, target: str) -> None:
        """Point the relative symlink `path` at `target`, replacing it in one step.

        A disk that makes no links gets a file with the name in it (`link_target`).
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
            with suppress(OSError):  # a link that is left would look like a stranger's
                temporary.unlink(missing_ok=True)
            raise

    def remove(self, path: Path) -> None:
        """Delete a folder and what is in it."""
        shutil.rmtree(path, ignore_errors=True)


def replace_file(path: Path, data: bytes, disk: Disk | None = None) -> None:
    """Replace `path` so that a crash leaves the old bytes or the new, never a mix."""
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
    """Write behind the end of `path` and force it to the device; a crash may leave a part of it."""
    with path.open("ab") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _open_without_links(path: str, flags: int) -> int:
    """A descriptor of `path` and not of what it leads to: a folder from elsewhere may have a link there."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
