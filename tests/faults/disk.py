"""Counts the operating system's file calls and makes chosen ones fail or kill the process.

It replaces the calls themselves, not a `Disk` object. So tests run the shipped code: the store, the log
files, the command's status files.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_CALLS = ("fsync", "replace", "rename", "symlink", "mkdir", "unlink", "rmdir", "truncate")


class FaultyDisk:
    """Context manager: while active, calls number `at` .. `until` fail (1 is the first, 0: none).

    Parameters
    ----------
    at, until : the calls that fail; `until` is `at` unless given
    error : errno of the failure; None: SIGKILL of this process, before the call is made
    torn : bytes that a failing or fatal *write* still puts into the file
    before_kill : the function to call with the number and name of the fatal call
    only : a name from `calls`; other kinds of calls are counted but do not fail
    under : count only paths below this folder and let only these fail (calls without a path always count)
    """

    def __init__(
        self,
        at: int = 0,
        *,
        until: int | None = None,
        error: int | None = errno.ENOSPC,
        torn: int = 0,
        before_kill: Callable[[int, str], None] = lambda k, call: None,
        only: str | None = None,
        under: Path | None = None,
    ) -> None:
        self.at, self.until = at, at if until is None else until
        self.error, self.torn, self.only = error, torn, only
        self.before_kill = before_kill
        self.under = str(under) if under else ""
        self.calls: list[str] = []
        self.failed: list[str] = []
        self._real: dict[str, Any] = {}
        self._open = io.open

    def call(self, name: str, tear: Callable[[int], None] = lambda count: None) -> None:
        """Count one call; raise or kill if it has to fail. `tear(n)` writes the first n bytes."""
        self.calls.append(name)
        if not self.at <= len(self.calls) <= self.until or self.only not in (None, name):
            return
        self.failed.append(name)
        if name == "write" and self.torn:
            tear(self.torn)
        if self.error is None:
            self.before_kill(len(self.calls), name)
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise OSError(self.error, os.strerror(self.error))

    def __enter__(self) -> Self:
        for name in _CALLS:
            self._real[name] = getattr(os, name)
            setattr(os, name, self._count_calls(name, self._real[name]))
        io.open = builtins.open = self._open_counted  # type: ignore[assignment]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)
        io.open = builtins.open = self._open

    def _count_calls(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            path = args[name == "symlink"]  # (target, link)
            is_path = isinstance(path, str | os.PathLike) and "dir_fd" not in kwargs
            if not is_path or os.fspath(path).startswith(self.under):
                self.call(name)
            return real(*args, **kwargs)

        return counted

    def _open_counted(self, path: Any, mode: str = "r", buffering: int = -1, *rest: Any, **kw: Any) -> Any:
        writes = isinstance(path, str | os.PathLike) and set(mode) & set("wax+")
        if not writes or not os.fspath(path).startswith(self.under):
            return self._open(path, mode, buffering, *rest, **kw)
        self.call("open")
        raw: Any = _File(os.fspath(path), mode.replace("b", "").replace("t", ""), self)
        if buffering == 0:
            return raw
        file = io.BufferedWriter(raw)
        return file if "b" in mode else io.TextIOWrapper(file, *rest, **kw)


class _File(io.FileIO):
    """A raw file that counts its writes and truncations as calls of `disk`."""

    def __init__(self, path: str, mode: str, disk: FaultyDisk) -> None:
        super().__init__(path, mode)
        self._disk = disk

    def write(self, data: Any) -> int:
        """Write all of `data`, or as much as the disk allows."""
        data_bytes = bytes(data)
        self._disk.call("write", lambda count: self._tear(data_bytes[:count]))
        return super().write(data_bytes)

    def truncate(self, size: int | None = None) -> int:
        """Truncate the file, if the disk allows."""
        self._disk.call("truncate")
        return super().truncate(size)

    def _tear(self, data: bytes) -> None:
        super().write(data)
