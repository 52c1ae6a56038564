"""A lock for calls that must not overlap, as their random numbers would mix; it refuses a second call."""

from __future__ import annotations

import threading

from rlox.errors import RloxError

__all__ = ["ExclusiveLock"]


class ExclusiveLock:
    """A block that only one caller can be in; a second entry raises `RloxError` at once.

    `activity` describes what runs in the block: "PPO is training".
    """

    def __init__(self, activity: str) -> None:
        self._activity, self._lock = activity, threading.Lock()
        self._thread: threading.Thread | None = None  # the thread that holds the lock

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._raise_in_use()
        self._thread = threading.current_thread()

    def __exit__(self, *_: object) -> None:
        self._thread = None
        self._lock.release()

    def require_free(self, include_own_thread: bool = False) -> None:
        """Raise `RloxError` if another thread is in the block, or, with `include_own_thread`, this thread."""
        if self._thread is not None and (
            include_own_thread or self._thread is not threading.current_thread()
        ):
            self._raise_in_use()

    def _raise_in_use(self) -> None:
        holder = self._thread
        if holder is threading.current_thread():
            raise RloxError(
                f"{self._activity}, expected one call at a time; this call comes from within another, "
                "such as from a callback: make it when the other has returned"
            )
        thread_text = f" in thread {holder.name}" if holder else ""
        raise RloxError(
            f"{self._activity}{thread_text}, expected one call at a time; wait until it has returned, or use "
            "an object for each thread"
        )
