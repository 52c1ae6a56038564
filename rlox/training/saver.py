"""Saving that outlasts a full disk: a save that is refused is owed, and made up for."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from rlox.errors import StorageError
from rlox.training.checkpoint import Checkpoint, CheckpointStore
from rlox.training.journal import Journal

__all__ = ["Saver"]

log = logging.getLogger("rlox.session")

RETRY_SECONDS = 0.5


class Saver:
    """Saves checkpoints whose log offsets are on disk before they are.

    `timeout` is how long the disk may refuse before `StorageError` ends the run.
    """

    def __init__(self, store: CheckpointStore, journal: Journal, timeout: float) -> None:
        self._store = store
        self._journal = journal
        self._timeout = timeout
        self._owed_since: float | None = None
        self._owed_best = False

    @property
    def owed(self) -> bool:
        """Whether a save was refused and not made up for yet."""
        return self._owed_since is not None

    def save(
        self, make: Callable[[dict[str, int]], Checkpoint], best: bool = False, wait: bool = False
    ) -> Path | None:
        """Save what `make(log offsets)` gives, or owe it (`wait`: try until the disk takes it)."""
        self._owed_best = self._owed_best or best
        while True:
            try:
                folder = self._store.save(make(self._journal.settle()), self._owed_best)
            except StorageError as error:
                self._refused(error)
            else:
                self._owed_since, self._owed_best = None, False
                return folder
            if not wait:
                return None
            time.sleep(RETRY_SECONDS)

    def _refused(self, error: StorageError) -> None:
        now = time.monotonic()
        if self._owed_since is None:
            self._owed_since = now
            log.warning("%s; trying again at every update", error)
        if now - self._owed_since >= self._timeout:
            raise error
