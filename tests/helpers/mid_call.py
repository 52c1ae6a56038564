"""Acts in the middle of a long call of the data plane, on a machine of any speed.

A long call on the main thread calls `rlox.stopping.check` about every 20 ms to learn whether to continue. An
action in this check happens inside the call, however long the call is. If a call ends before its first check,
it is made again with twice the size. So no timer has to guess the length of a call.
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
"""Seconds after which a call without a check has failed: it must check every 20 ms."""


@contextmanager
def on_interrupt_check(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` on the main thread whenever a long call there checks whether to continue."""
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
    """Call `act` inside a call, in its first `max_calls` checks of whether to continue.

    `make(size)` prepares the call and returns it as a function. A call without a check is prepared and made
    again with twice the size. Returns the result of the call, and raises any error of `act`.
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
    """Only `raise_during` catches it."""


def raise_during(make: Make[object], size: int) -> None:
    """Raise an exception in the middle of a call, as a raising signal handler does; check that it ends."""

    def raises() -> None:
        raise _RaisedDuring

    try:
        call_during(make, size, raises)
    except _RaisedDuring:
        return
    raise AssertionError("the call went on to its end")


@contextmanager
def handle_signal(number: signal.Signals, handler: Callable[[], object]) -> Iterator[None]:
    """Handle the signal with `handler`; at the end discard a new timer and restore the old one."""

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
    """A signal during a call, and whether the handler ran inside the call."""

    def __init__(self, handler: Callable[[], object]) -> None:
        self._handler = handler
        self._n_checks = 0
        self._handled_at: int | None = None

    def on_check(self) -> None:
        """Start the timer at the first check of the call."""
        self._n_checks += 1
        if self._n_checks == 1:
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    def handle(self) -> None:
        """Handle the signal."""
        self._handled_at = self._n_checks
        self._handler()

    @property
    def handled_inside(self) -> bool:
        """Whether the call made another check after the handler."""
        return self._handled_at is not None and self._n_checks > self._handled_at


def call_interrupted(make: Make[T], size: int, handler: Callable[[], object]) -> T:
    """Return the result of a call that a signal interrupted; `handler` does not raise.

    A timer that the first check starts sends the signal, so it comes at any moment, as Ctrl-C does. A signal
    after the end of a short call does not count: the call is made again with twice the size.
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
