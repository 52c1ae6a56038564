"""Standard output and error that may fail: a closed pipe, a lost terminal, a full disk.

A failing output never ends a command: once a stream fails, the rest of it is dropped. The error of a full
disk is kept, for commands that only print.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from rlox_cli.shell.exit_codes import DISK_FULL_ERRORS


class NonFailingStream:
    """A text stream whose writes do not fail; characters that it cannot encode become `?`."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_closed = stream is None  # closed before the command began
        self.disk_full_error: OSError | None = None  # set if a disk had no room for the rest

    def write(self, text: str) -> int:
        """Write the text; drop it once the stream has failed."""
        with self._drop_on_error():
            if self._stream is not None and not self._is_closed:
                self._write_all(self._stream, self._encodable(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write what is buffered."""
        with self._drop_on_error():
            if self._stream is not None and not self._is_closed:
                self._stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        with suppress(OSError, ValueError):
            return self._stream is not None and not self._is_closed and self._stream.isatty()
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def _write_all(self, stream: TextIO, text: str) -> None:
        raw = getattr(stream, "buffer", None)
        if not isinstance(raw, io.RawIOBase):
            stream.write(text)
            return
        # with PYTHONUNBUFFERED the stream drops what one call has not written
        remaining = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
        while remaining and (n_bytes := raw.write(remaining)):
            remaining = remaining[n_bytes:]

    def _encodable(self, text: str) -> str:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return text.encode(encoding, "replace").decode(encoding)

    @contextmanager
    def _drop_on_error(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS:
                self.disk_full_error = error
            self._drop()

    def _drop(self) -> None:
        """Redirect the stream to the null device, and so the buffered text that Python writes at exit."""
        self._is_closed = True
        with suppress(OSError, ValueError, AttributeError):  # the stream may have no file descriptor
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, cast(TextIO, self._stream).fileno())
            os.close(devnull)


@contextmanager
def non_failing_output() -> Iterator[NonFailingStream]:
    """Replace standard output and error by `NonFailingStream`s and yield that of standard output.

    Both streams are flushed at the end.
    """
    _open_closed_streams()
    saved_streams = sys.stdout, sys.stderr
    streams = NonFailingStream(sys.stdout), NonFailingStream(sys.stderr)
    sys.stdout, sys.stderr = cast(TextIO, streams[0]), cast(TextIO, streams[1])
    try:
        yield streams[0]
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = saved_streams


def _open_closed_streams() -> None:
    """Open the null device for each closed standard stream.

    Otherwise the next file would get its descriptor, and receive what libraries write to descriptor 2.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # `os.open` takes the lowest free descriptor, which is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
