"""Standard output and error that may go away: a pipe's reader, a terminal, room on a disk.

What is shown is never a reason to end a command: once a stream fails, the rest of it is dropped. That a disk
had no room for it is kept, for commands that do nothing but print.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from rlox_cli.exit_codes import DISK_FULL_ERRORS


class NonFailingStream:
    """A text stream whose writes do not fail; characters that it cannot say become `?`."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_closed = stream is None  # closed before the command began
        self.disk_full_error: OSError | None = None  # where a disk had no room for the rest

    def write(self, text: str) -> int:
        """Write while somebody reads."""
        with self._drop_on_error():
            if self._stream is not None and not self._is_closed:
                self._write_all(self._stream, self._encodable(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Hand on what is held back."""
        with self._drop_on_error():
            if self._stream is not None and not self._is_closed:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
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
        # with PYTHONUNBUFFERED the stream drops what one call has not taken
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
        except (OSError, ValueError) as error:  # ValueError: somebody closed it
            if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS:
                self.disk_full_error = error
            self._drop()

    def _drop(self) -> None:
        """From here on nowhere: also what is still held back, which Python writes when it exits."""
        self._is_closed = True
        with suppress(OSError, ValueError, AttributeError):  # it may have no file number
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, cast(TextIO, self._stream).fileno())
            os.close(devnull)


@contextmanager
def non_failing_output() -> Iterator[NonFailingStream]:
    """While active, standard output, which is given, and error are `NonFailingStream`; both are flushed at
    the end.
    """
    _open_closed_streams()
    before = sys.stdout, sys.stderr
    streams = NonFailingStream(sys.stdout), NonFailingStream(sys.stderr)
    sys.stdout, sys.stderr = cast(TextIO, streams[0]), cast(TextIO, streams[1])
    try:
        yield streams[0]
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = before


def _open_closed_streams() -> None:
    """Open nowhere for each standard stream that is closed: the next file would have its number, and what
    is written to standard error by number would be in it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the lowest number that is free is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
