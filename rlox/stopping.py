"""A run that is asked to stop in the middle of something long.

It may go on for a moment, to where it can be saved. After that it is abandoned at the next minibatch or
step of the environments, and goes on from its last checkpoint when it is resumed.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

__all__ = ["Abandoned", "Patience", "check"]

MOMENT = 2.0  # seconds


class Abandoned(BaseException):
    """Ends what is under way; no handler of `Exception` is meant to see it."""


class Patience:
    """Context manager around work that can be abandoned; one at a time, the innermost counts."""

    def __init__(self) -> None:
        self._asked: float | None = None
        self._outer: Patience | None = None

    def ask(self) -> None:
        """From now on a moment is left; safe to call from a signal handler."""
        self._asked = self._asked or time.monotonic()

    def over(self) -> bool:
        """Whether the moment has passed."""
        return self._asked is not None and time.monotonic() - self._asked > MOMENT

    def __enter__(self) -> Self:
        global _present
        self._outer, _present = _present, self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _present
        _present = self._outer


_present: Patience | None = None


def check() -> None:
    """Raise `Abandoned` if the work was asked to stop longer ago than a moment.

    Called between minibatches and between steps of the environments.
    """
    if _present is not None and _present.over():
        raise Abandoned
