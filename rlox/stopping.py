"""A run that is asked to stop in the middle of something long.

It may go on for a moment, to where it can be saved. After that it is abandoned at the next minibatch or
step of the environments, and goes on from its last checkpoint when it is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Abandoned", "Patience", "check"]

MOMENT = 2.0  # seconds
SIGN_SECONDS = 2.0  # between signs of life


class Abandoned(BaseException):
    """Ends what is under way; no handler of `Exception` is meant to see it."""


class Patience:
    """How long work that was asked to stop may still go on.

    `sign` is called every few seconds of it, from the thread that works.
    """

    def __init__(self, sign: Callable[[], None] | None = None) -> None:
        self._asked: float | None = None
        self._sign, self._signed = sign, time.monotonic()

    def ask(self) -> None:
        """From now on a moment is left; safe to call from a signal handler."""
        self._asked = self._asked or time.monotonic()

    def over(self) -> bool:
        """Whether the moment has passed."""
        return self._asked is not None and time.monotonic() - self._asked > MOMENT

    def sign(self) -> None:
        """Show that work goes on, if that is due."""
        if self._sign is not None and time.monotonic() - self._signed >= SIGN_SECONDS:
            self._sign()
            self.signed()

    def signed(self) -> None:
        """Something else has just shown that work goes on."""
        self._signed = time.monotonic()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Around work that can be abandoned; the innermost counts."""
        global _present
        outer, _present = _present, self
        try:
            yield
        finally:
            _present = outer


_present: Patience | None = None


def check() -> None:
    """Raise `Abandoned` if the work was asked to stop longer ago than a moment.

    Called between minibatches and between steps of the environments, and by long calls of `rlox._core`.
    """
    if _present is None:
        return
    if _present.over():
        raise Abandoned
    _present.sign()
