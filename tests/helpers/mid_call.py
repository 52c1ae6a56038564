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

__all__ = ["call_during", "call_interrupted", "handle_signal", "on_interrupt_check", "raise_during"]

T = TypeVar("T")
Make = Callable[[int], Callable[[], T]]

MAX_SECONDS = 10.0
"""Seconds after which a call is taken for one that never asks: it has to ask every 20 ms."""


@contextmanager
def on_interrupt_check(act: Callable[[], object]) -> Iterator[None]:
    """Calls `act` on the main thread whenever a long call asks there whether to go on."""
    before = stopping.raise_if_expired

    def check() -> None:
        before()
        act()

    stopping.raise_if_expired = check
    try:
        yield
    finally:
        stopping.raise_if_expired = before


def call_during(make: Make[T], size: int, act: Callable[[], object], max_calls: int = 1) -> T:
    """Call `act` inside a call, at the first `max_calls` times that it asks whether to go on.

    `make(size)` prepares the call, and what it returns makes it: a short one is prepared and made again with
    twice the size, until it asks. Returns what the call returns, and raises what `act` raises.
    """
    n_checks = 0

    def first() -> None:
        nonlocal n_checks
        n_checks += 1
        if n_checks <= max_calls:
            act()

    while True:
        call = make(size)
        start = time.perf_counter()
        with on_interrupt_check(first):
            result = call()
        if n_checks:
            return result
        seconds = time.perf_counter() - start
        assert seconds < MAX_SECONDS, f"a call of {seconds:.1f} s never asked whether to go on"
        size *= 2


class _RaisedDuring(BaseException):
    """Nothing but `raise_during` catches it."""


def raise_during(make: Make[object], size: int) -> None:
    """Have an exception end a call in the middle, as the handler of a signal does that raises one."""

    def raises() -> None:
        raise _RaisedDuring

    try:
        call_during(make, size, raises)
    except _RaisedDuring:
        return
    raise AssertionError("the call went on to its end")


@contextmanager
def handle_signal(number: signal.Signals, handler: Callable[[], object]) -> Iterator[None]:
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
        self._n_checks = 0
        self._handled_at: int | None = None

    def on_check(self) -> None:
        """The call asks whether to go on."""
        self._n_checks += 1
        if self._n_checks == 1:
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    def handle(self) -> None:
        """The signal came."""
        self._handled_at = self._n_checks
        self._handler()

    @property
    def handled_inside(self) -> bool:
        """Whether the call asked once more after the handler."""
        return self._handled_at is not None and self._n_checks > self._handled_at


def call_interrupted(make: Make[T], size: int, handler: Callable[[], object]) -> T:
    """What a call returns that a signal interrupted, whose `handler` does not raise.

    The signal is sent once the call has begun, and comes at a moment of its own, as Ctrl-C does. One that
    comes after the call, because the call was short, does not count: it is made again, twice as large.
    """
    while True:
        alarm, call = _Alarm(handler), make(size)
        start = time.perf_counter()
        with handle_signal(signal.SIGALRM, alarm.handle), on_interrupt_check(alarm.on_check):
            result = call()
        if alarm.handled_inside:
            return result
        seconds = time.perf_counter() - start
        assert seconds < MAX_SECONDS, f"in a call of {seconds:.1f} s no signal was handled"
        size *= 2
