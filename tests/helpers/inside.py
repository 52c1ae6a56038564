"""Acts in the middle of a long call of the data plane, on a machine of any speed.

A long call on the main thread asks `rlox.stopping.check` about every 20 ms whether to go on. What acts there
acts inside the call, however long the call is; a call that is over before it asks is made again, twice as
large. No timer has to guess how long a call takes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from rlox import stopping

__all__ = ["break_off", "called_on", "inside", "interrupted", "when_asked"]

T = TypeVar("T")
Make = Callable[[int], Callable[[], T]]

LONG = 10.0
"""Seconds after which a call is taken for one that never asks: it has to ask every 20 ms."""


@contextmanager
def when_asked(act: Callable[[], object]) -> Iterator[None]:
    """Calls `act` on the main thread whenever a long call asks there whether to go on."""
    before = stopping.check

    def check() -> None:
        before()
        act()

    stopping.check = check
    try:
        yield
    finally:
        stopping.check = before


def inside(make: Make[T], size: int, act: Callable[[], object], most: int = 1) -> T:
    """Call `act` inside a call, at the first `most` times that it asks whether to go on.

    `make(size)` prepares the call, and what it returns makes it: a short one is prepared and made again with
    twice the size, until it asks. Returns what the call returns, and raises what `act` raises.
    """
    asked = 0

    def first() -> None:
        nonlocal asked
        asked += 1
        if asked <= most:
            act()

    while True:
        call = make(size)
        begun = time.perf_counter()
        with when_asked(first):
            result = call()
        if asked:
            return result
        taken = time.perf_counter() - begun
        assert taken < LONG, f"a call of {taken:.1f} s never asked whether to go on"
        size *= 2


class _BrokenOff(BaseException):
    """Nothing but `break_off` catches it."""


def break_off(make: Make[object], size: int) -> None:
    """Have an exception end a call in the middle, as the handler of a signal does that raises one."""

    def raises() -> None:
        raise _BrokenOff

    try:
        inside(make, size, raises)
    except _BrokenOff:
        return
    raise AssertionError("the call went on to its end")


@contextmanager
def called_on(number: signal.Signals, handler: Callable[[], object]) -> Iterator[None]:
    """Has `handler` called for the signal; a timer set meanwhile is forgotten, one of before goes on."""

    def handle(signum: int, frame: FrameType | None) -> None:
        handler()

    timer = signal.getitimer(signal.ITIMER_REAL)
    before = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(number, before)


class _Alarm:
    """A signal to a call, and whether it was handled inside it."""

    def __init__(self, handler: Callable[[], object]) -> None:
        self._handler = handler
        self._asked = 0
        self._handled_at: int | None = None

    def ask(self) -> None:
        """The call asks whether to go on."""
        self._asked += 1
        if self._asked == 1:
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    def handle(self) -> None:
        """The signal came."""
        self._handled_at = self._asked
        self._handler()

    @property
    def handled_inside(self) -> bool:
        """Whether the call asked once more after the handler."""
        return self._handled_at is not None and self._asked > self._handled_at


def interrupted(make: Make[T], size: int, handler: Callable[[], object]) -> T:
    """What a call returns that a signal interrupted, whose `handler` does not raise.

    The signal is sent once the call has begun, and comes at a moment of its own, as Ctrl-C does. One that
    comes after the call, because the call was short, does not count: it is made again, twice as large.
    """
    while True:
        alarm, call = _Alarm(handler), make(size)
        begun = time.perf_counter()
        with called_on(signal.SIGALRM, alarm.handle), when_asked(alarm.ask):
            result = call()
        if alarm.handled_inside:
            return result
        taken = time.perf_counter() - begun
        assert taken < LONG, f"in a call of {taken:.1f} s no signal was handled"
        size *= 2
