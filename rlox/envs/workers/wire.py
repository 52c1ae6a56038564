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

__all__ = ["Gone", "Late", "Wire", "delivered", "pickled"]

_BARE, _OBJECT = b".", b"o"
_LENGTH = struct.Struct("!Q")
_LONGEST_WAIT = 1 << 30  # milliseconds, of one call


class Gone(Exception):
    """The other end has closed, or its process has ended."""


class Late(Exception):
    """Nothing came, or was taken, until the deadline."""


class Wire:
    """One end: a file to read from and one to write to, two pipes or one socket.

    Pipes take half of a socket's time for a byte, a socket can carry files.
    """

    def __init__(self, reads: int, writes: int) -> None:
        self.reads, self.writes = reads, writes
        self._waits = os.get_blocking(reads)
        self._unsent = b""  # what the other end has had no room for yet
        self._ready = select.poll()
        self._ready.register(reads, select.POLLIN)
        _open.add(self)

    @classmethod
    def pair(cls) -> tuple[Wire, tuple[int, int]]:
        """One end over pipes, and the files of the other."""
        reads, theirs = os.pipe()
        others, writes = os.pipe()
        os.set_blocking(reads, False)  # what has come is taken without asking whether it has
        os.set_blocking(
            writes, False
        )  # whoever is stopped takes nothing, and must not stop the run
        return cls(reads, writes), (others, theirs)

    @classmethod
    def of(cls, reads: int, writes: int) -> Wire:
        """The end that this process was given."""
        for fd in {reads, writes}:
            os.set_inheritable(fd, False)
        return cls(reads, writes)

    def nudge(self) -> None:
        """Send the one byte; `Gone` where nobody is left to take it."""
        self._hand_over(_BARE)

    def send(self, what: Any, deadline: float | None = None) -> None:
        """Send an object; `Late` where it is not taken until the deadline, with which the line is useless."""
        self.send_pickled(pickled(what), deadline)

    def send_pickled(self, given: bytes, deadline: float | None = None) -> None:
        """Send an object that is `pickled` already."""
        self._hand_over(_OBJECT + _LENGTH.pack(len(given)) + given)
        if self._unsent and delivered([self], deadline):
            raise Late

    def post(self, what: Any) -> None:
        """Send as much of an object as is taken at once; `delivered` waits for the rest."""
        given = pickled(what)
        self._hand_over(_OBJECT + _LENGTH.pack(len(given)) + given)

    @property
    def unsent(self) -> bool:
        """Whether something posted has not been taken yet."""
        return bool(self._unsent)

    def hand_over(self) -> bool:
        """Go on with what was posted; whether all of it is taken."""
        self._hand_over(b"")
        return not self._unsent

    def receive(self, deadline: float | None = None) -> Any:
        """The next object, `None` for the one byte; `deadline` in the time of `time.monotonic`."""
        if self._take(1, deadline) == _BARE:
            return None
        (length,) = _LENGTH.unpack(self._take(_LENGTH.size, deadline))
        return ForkingPickler.loads(self._take(length, deadline))

    def wait(self, deadline: float | None = None) -> None:
        """Wait until something has come or the other end has closed; raises `Late` at the deadline."""
        while True:
            left = _LONGEST_WAIT if deadline is None else 1000 * (deadline - time.monotonic())
            # what has come by now counts, even if it is looked for after the deadline
            if self._ready.poll(min(max(math.ceil(left), 0), _LONGEST_WAIT)):
                return
            if left <= 0:
                raise Late

    def hang_up(self) -> None:
        """Have the other end find the line closed."""
        if self.writes >= 0 and self.writes != self.reads:
            os.close(self.writes)
            self.writes = -1

    def close(self) -> None:
        """Close this end."""
        self.hang_up()
        if self.reads >= 0:
            os.close(self.reads)
        self.reads = self.writes = -1

    def _hand_over(self, given: bytes) -> None:
        """Send behind what is unsent; keep what is not taken."""
        given = self._unsent + given if self._unsent else given
        try:
            while given:
                given = given[os.write(self.writes, given) :]
        except BlockingIOError:
            pass
        except OSError as error:
            given = b""
            raise Gone from error
        finally:
            self._unsent = given

    def _take(self, length: int, deadline: float | None) -> bytes:
        """So many bytes."""
        if self._waits and deadline is not None:
            self.wait(deadline)
        taken = b""
        while True:
            try:
                got = os.read(self.reads, length - len(taken))
            except BlockingIOError:
                self.wait(deadline)
                continue
            except OSError as error:
                raise Gone from error
            if not got:
                raise Gone
            taken += got
            if len(taken) == length:
                return taken


def delivered(wires: Iterable[Wire], deadline: float | None) -> list[Wire]:
    """Wait until what was posted is taken at all the other ends; where it was not by the deadline.

    Whoever takes nothing keeps nobody else waiting. One that is gone is for its reader to find.
    """
    left = {wire.writes: wire for wire in wires if wire.unsent and wire.writes >= 0}
    ready = select.poll()
    for fd in left:
        ready.register(fd, select.POLLOUT)
    while left:
        rest = _LONGEST_WAIT if deadline is None else 1000 * (deadline - time.monotonic())
        able = ready.poll(min(max(math.ceil(rest), 0), _LONGEST_WAIT))
        for fd, _ in able:
            try:
                done = left[fd].hand_over()
            except Gone:
                done = True
            if done:
                ready.unregister(fd)
                del left[fd]
        if rest <= 0 and not able:
            break
    return list(left.values())


def pickled(what: Any) -> bytes:
    """As `Wire.send_pickled` takes it."""
    return bytes(ForkingPickler.dumps(what))


_open: weakref.WeakSet[Wire] = weakref.WeakSet()


def _close_in_fork() -> None:
    """A fork of the run's process would keep the ends open after its death."""
    for wire in list(_open):
        wire.close()


os.register_at_fork(after_in_child=_close_in_fork)
