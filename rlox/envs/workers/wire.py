"""A line between two processes of a run: one byte for what happens at every step, objects for the rest.

Objects are pickled, as `multiprocessing` does it: both ends are processes that this run started, and
nothing of it is ever read from a file.
"""

from __future__ import annotations

import math
import os
import select
import struct
import time
import weakref
from collections.abc import Iterable
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = ["PeerClosed", "ReplyTimeout", "Wire", "dumps", "flush_all"]

_STEP_BYTE, _OBJECT = b".", b"o"
_LENGTH = struct.Struct("!Q")
_LONGEST_WAIT = 1 << 30  # milliseconds, of one call


class PeerClosed(Exception):
    """The other end has closed, or its process has ended."""


class ReplyTimeout(Exception):
    """Nothing came, or was taken, until the deadline."""


class Wire:
    """One end: a file to read from and one to write to, two pipes or one socket.

    Pipes take half of a socket's time for a byte, a socket can carry files.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd, self.write_fd = read_fd, write_fd
        self._is_blocking = os.get_blocking(read_fd)
        self._unsent = b""  # what the other end has had no room for yet
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)
        _open_wires.add(self)

    @classmethod
    def pair(cls) -> tuple[Wire, tuple[int, int]]:
        """One end over pipes, and the files of the other."""
        read_fd, peer_write_fd = os.pipe()
        peer_read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)  # what has come is taken without asking whether it has
        os.set_blocking(write_fd, False)  # whoever is stopped takes nothing, and must not stop the run
        return cls(read_fd, write_fd), (peer_read_fd, peer_write_fd)

    @classmethod
    def of(cls, read_fd: int, write_fd: int) -> Wire:
        """The end that this process was given."""
        for fd in {read_fd, write_fd}:
            os.set_inheritable(fd, False)
        return cls(read_fd, write_fd)

    def signal_step(self) -> None:
        """Send the one byte; `PeerClosed` where nobody is left to take it."""
        self._write(_STEP_BYTE)

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Send an object; `ReplyTimeout` where it is not taken until the deadline, with which the line is
        useless.
        """
        self.send_pickled(dumps(message), deadline)

    def send_pickled(self, payload: bytes, deadline: float | None = None) -> None:
        """Send an object that is pickled already (`dumps`)."""
        self._write(_OBJECT + _LENGTH.pack(len(payload)) + payload)
        if self._unsent and flush_all([self], deadline):
            raise ReplyTimeout

    def send_nowait(self, message: Any) -> None:
        """Send as much of an object as is taken at once; `flush_all` waits for the rest."""
        payload = dumps(message)
        self._write(_OBJECT + _LENGTH.pack(len(payload)) + payload)

    @property
    def has_unsent(self) -> bool:
        """Whether something posted has not been taken yet."""
        return bool(self._unsent)

    def flush(self) -> bool:
        """Go on with what was posted; whether all of it is taken."""
        self._write(b"")
        return not self._unsent

    def receive(self, deadline: float | None = None) -> Any:
        """The next object, `None` for the one byte; `deadline` in the time of `time.monotonic`."""
        if self._read_exactly(1, deadline) == _STEP_BYTE:
            return None
        (length,) = _LENGTH.unpack(self._read_exactly(_LENGTH.size, deadline))
        return ForkingPickler.loads(self._read_exactly(length, deadline))

    def wait(self, deadline: float | None = None) -> None:
        """Wait until something has come or the other end has closed; `ReplyTimeout` at the deadline."""
        while True:
            milliseconds = _LONGEST_WAIT if deadline is None else 1000 * (deadline - time.monotonic())
            # what has come by now counts, even if it is looked for after the deadline
            if self._poll.poll(min(max(math.ceil(milliseconds), 0), _LONGEST_WAIT)):
                return
            if milliseconds <= 0:
                raise ReplyTimeout

    def close_write_end(self) -> None:
        """Have the other end find the line closed."""
        if self.write_fd >= 0 and self.write_fd != self.read_fd:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Close this end."""
        self.close_write_end()
        if self.read_fd >= 0:
            os.close(self.read_fd)
        self.read_fd = self.write_fd = -1

    def _write(self, data: bytes) -> None:
        """Send behind what is unsent; keep what is not taken."""
        data = self._unsent + data if self._unsent else data
        try:
            while data:
                data = data[os.write(self.write_fd, data) :]
        except BlockingIOError:
            pass
        except OSError as error:
            data = b""
            raise PeerClosed from error
        finally:
            self._unsent = data

    def _read_exactly(self, length: int, deadline: float | None) -> bytes:
        """So many bytes."""
        if self._is_blocking and deadline is not None:
            self.wait(deadline)
        data = b""
        while True:
            try:
                chunk = os.read(self.read_fd, length - len(data))
            except BlockingIOError:
                self.wait(deadline)
                continue
            except OSError as error:
                raise PeerClosed from error
            if not chunk:
                raise PeerClosed
            data += chunk
            if len(data) == length:
                return data


def flush_all(wires: Iterable[Wire], deadline: float | None) -> list[Wire]:
    """Wait until what was posted is taken at all the other ends; where it was not by the deadline.

    Whoever takes nothing keeps nobody else waiting. One that is gone is for its reader to find.
    """
    unsent_wires = {wire.write_fd: wire for wire in wires if wire.has_unsent and wire.write_fd >= 0}
    ready = select.poll()
    for fd in unsent_wires:
        ready.register(fd, select.POLLOUT)
    while unsent_wires:
        milliseconds = _LONGEST_WAIT if deadline is None else 1000 * (deadline - time.monotonic())
        ready_fds = ready.poll(min(max(math.ceil(milliseconds), 0), _LONGEST_WAIT))
        for fd, _ in ready_fds:
            try:
                is_done = unsent_wires[fd].flush()
            except PeerClosed:
                is_done = True
            if is_done:
                ready.unregister(fd)
                del unsent_wires[fd]
        if milliseconds <= 0 and not ready_fds:
            break
    return list(unsent_wires.values())


def dumps(message: Any) -> bytes:
    """As `Wire.send_pickled` takes it."""
    return bytes(ForkingPickler.dumps(message))


_open_wires: weakref.WeakSet[Wire] = weakref.WeakSet()


def _close_in_fork() -> None:
    """A fork of the run's process would keep the ends open after its death."""
    for wire in list(_open_wires):
        wire.close()


os.register_at_fork(after_in_child=_close_in_fork)
