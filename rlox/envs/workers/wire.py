"""Connection between two processes of a run: one byte for each step, pickled objects for other messages.

Objects are pickled as in `multiprocessing`: this run started the processes at both ends, and nothing is read
from a file.
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
_LONGEST_WAIT = 1 << 30  # longest wait of one call of `poll`, in milliseconds


class PeerClosed(Exception):
    """The other end has closed, or its process has ended."""


class ReplyTimeout(Exception):
    """The peer did not send or read anything before the deadline."""


class Wire:
    """One end of a connection: file descriptors to read from and write to, of two pipes or one socket.

    A byte takes half as long over pipes as over a socket, but only a socket can transfer file descriptors.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd, self.write_fd = read_fd, write_fd
        self._is_blocking = os.get_blocking(read_fd)
        self._unsent = b""  # data that the peer has not read yet
        self._poll = select.poll()
        self._poll.register(read_fd, select.POLLIN)
        _open_wires.add(self)

    @classmethod
    def pair(cls) -> tuple[Wire, tuple[int, int]]:
        """Create one end over pipes, and return it with the file descriptors of the other."""
        read_fd, peer_write_fd = os.pipe()
        peer_read_fd, write_fd = os.pipe()
        os.set_blocking(read_fd, False)  # so that reading needs no poll first
        os.set_blocking(write_fd, False)  # a stopped peer reads nothing, and must not block the run
        return cls(read_fd, write_fd), (peer_read_fd, peer_write_fd)

    @classmethod
    def of(cls, read_fd: int, write_fd: int) -> Wire:
        """Wrap the descriptors of an end that this process was given."""
        for fd in {read_fd, write_fd}:
            os.set_inheritable(fd, False)
        return cls(read_fd, write_fd)

    def signal_step(self) -> None:
        """Send the byte of a step; `PeerClosed` if the peer has closed."""
        self._write(_STEP_BYTE)

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Send an object; `ReplyTimeout` if it is not read by the deadline, which makes the wire unusable."""
        self.send_pickled(dumps(message), deadline)

    def send_pickled(self, payload: bytes, deadline: float | None = None) -> None:
        """Send an object that is already pickled (`dumps`)."""
        self._write(_OBJECT + _LENGTH.pack(len(payload)) + payload)
        if self._unsent and flush_all([self], deadline):
            raise ReplyTimeout

    def send_nowait(self, message: Any) -> None:
        """Send as much of an object as possible without waiting; `flush_all` sends the rest."""
        payload = dumps(message)
        self._write(_OBJECT + _LENGTH.pack(len(payload)) + payload)

    @property
    def has_unsent(self) -> bool:
        """Whether part of an earlier message is not sent yet."""
        return bool(self._unsent)

    def flush(self) -> bool:
        """Continue sending unsent data; returns whether all is sent."""
        self._write(b"")
        return not self._unsent

    def receive(self, deadline: float | None = None) -> Any:
        """Return the next object, `None` for the byte of a step; `deadline` refers to `time.monotonic`."""
        if self._read_exactly(1, deadline) == _STEP_BYTE:
            return None
        (length,) = _LENGTH.unpack(self._read_exactly(_LENGTH.size, deadline))
        return ForkingPickler.loads(self._read_exactly(length, deadline))

    def wait(self, deadline: float | None = None) -> None:
        """Wait until data has arrived or the other end has closed; `ReplyTimeout` at the deadline."""
        while True:
            milliseconds = _LONGEST_WAIT if deadline is None else 1000 * (deadline - time.monotonic())
            # data that has arrived counts, even if this poll comes after the deadline
            if self._poll.poll(min(max(math.ceil(milliseconds), 0), _LONGEST_WAIT)):
                return
            if milliseconds <= 0:
                raise ReplyTimeout

    def close_write_end(self) -> None:
        """Close the write end, so that the peer sees a closed connection."""
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
        """Send after the unsent data; keep the bytes that do not fit."""
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
        """Read exactly `length` bytes."""
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
    """Wait until all wires have sent their data; return those that have not by the deadline.

    A peer that does not read does not block others; a closed peer is reported by the next `receive()`.
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
    """Pickle an object for `Wire.send_pickled`."""
    return bytes(ForkingPickler.dumps(message))


_open_wires: weakref.WeakSet[Wire] = weakref.WeakSet()


def _close_in_fork() -> None:
    """Close all ends in a fork, which would otherwise keep them open after the death of the run's process."""
    for wire in list(_open_wires):
        wire.close()


os.register_at_fork(after_in_child=_close_in_fork)
