"""An evaluation while it is made: whether it is to end now, and signs of life of a long one."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Evaluating"]

SIGN_SECONDS = 2.0  # between signs of life


class Evaluating:
    """The `stopped` of an evaluation, which asks at every step.

    Parameters
    ----------
    stop : whether to end now
    tell : called every few seconds with the seconds that it has taken
    """

    def __init__(self, stop: Callable[[], bool], tell: Callable[[float], None]) -> None:
        self._stop, self._tell = stop, tell
        self._begun = self._told = time.monotonic()
        self.broken_off = False

    def __call__(self) -> bool:
        """Whether to end; it has ended before its last episode then."""
        now = time.monotonic()
        if now - self._told >= SIGN_SECONDS:
            self._told = now
            self._tell(now - self._begun)
        self.broken_off = self._stop()
        return self.broken_off
