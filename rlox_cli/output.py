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

from rlox_cli.exit_codes import FULL


class Lasting:
    """A text stream whose writes do not fail; characters that it cannot say become `?`."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._gone = stream is None  # closed before the command began
        self.cut: OSError | None = None  # where a disk had no room for the rest

    def write(self, text: str) -> int:
        """Write while somebody reads."""
        with self._kept():
            if self._stream is not None and not self._gone:
                self._pass_on(self._stream, self._sayable(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write each of them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Hand on what is held back."""
        with self._kept():
            if self._stream is not None and not self._gone:
                self._stream.flush()

    def isatty(self) -> bool:
        """Whether a terminal shows it."""
        with suppress(OSError, ValueError):
            return self._stream is not None and not self._gone and self._stream.isatty()
        return False

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def _pass_on(self, stream: TextIO, text: str) -> None:
        raw = getattr(stream, "buffer", None)
        if not isinstance(raw, io.RawIOBase):
            stream.write(text)
            return
        # with PYTHONUNBUFFERED the stream drops what one call has not taken
        left = memoryview(text.encode(stream.encoding, stream.errors or "strict"))
        while left and (taken := raw.write(left)):
            left = left[taken:]

    def _sayable(self, text: str) -> str:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        return text.encode(encoding, "replace").decode(encoding)

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:  # ValueError: somebody closed it
            if isinstance(error, OSError) and error.errno in FULL:
                self.cut = error
            self._drop()

    def _drop(self) -> None:
        """From here on nowhere: also what is still held back, which Python writes when it exits."""
        self._gone = True
        with suppress(OSError, ValueError, AttributeError):  # it may have no file number
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, cast(TextIO, self._stream).fileno())
            os.close(nowhere)


@contextmanager
def lasting_output() -> Iterator[Lasting]:
    """While active, standard output, which is given, and error are `Lasting`; both are flushed at the end."""
    _occupy()
    before = sys.stdout, sys.stderr
    ours = Lasting(sys.stdout), Lasting(sys.stderr)
    sys.stdout, sys.stderr = cast(TextIO, ours[0]), cast(TextIO, ours[1])
    try:
        yield ours[0]
    finally:
        for stream in ours:
            stream.flush()
        sys.stdout, sys.stderr = before


def _occupy() -> None:
    """Open nowhere for each standard stream that is closed: the next file would have its number, and what
    is written to standard error by number would be in it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the lowest number that is free is this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
