"""What one call at a time may do: a second one is refused, where threads would mix their numbers."""

from __future__ import annotations

import threading

from rlox.errors import RloxError

__all__ = ["Exclusive"]


class Exclusive:
    """A block that is entered once at a time; `RloxError` for a second entry, which waits for nothing.

    `what` is under way in it, in words: "PPO is training".
    """

    def __init__(self, what: str) -> None:
        self._what, self._lock = what, threading.Lock()
        self._thread: threading.Thread | None = None  # that is in it

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._refuse()
        self._thread = threading.current_thread()

    def __exit__(self, *_: object) -> None:
        self._thread = None
        self._lock.release()

    def require_no_other(self, nor_this: bool = False) -> None:
        """`RloxError` where another thread, or this one with `nor_this`, is in the block."""
        if self._thread is not None and (
            nor_this or self._thread is not threading.current_thread()
        ):
            self._refuse()

    def _refuse(self) -> None:
        other = self._thread
        if other is threading.current_thread():
            raise RloxError(
                f"{self._what}, expected one call at a time; this one comes from within it, as from a "
                "callback: make it when the other has returned"
            )
        where = f" in thread {other.name}" if other else ""
        raise RloxError(
            f"{self._what}{where}, expected one call at a time; wait until it has returned, or use an object "
            "for each thread"
        )
