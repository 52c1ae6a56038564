"""Saving that survives a full disk: a refused save is retried later."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from rlox.disk import FolderIdentity, is_transient
from rlox.errors import StorageError
from rlox.runs.checkpoint import Checkpoint
from rlox.runs.checkpoint_store import CheckpointStore
from rlox.runs.journal import Journal

__all__ = ["Saver"]

log = logging.getLogger("rlox.session")

RETRY_SECONDS = 0.5

# Makes a checkpoint from the log offsets, with or without the rows of a replay buffer.
MakeCheckpoint = Callable[[dict[str, int], bool], Checkpoint]


class Saver:
    """Saves a checkpoint once the log rows that its offsets count are on disk.

    If the disk refuses temporarily, saves are retried for `timeout` seconds; then `StorageError` ends the
    run. A permanent error, or a run folder that was moved, ends it at once. `should_give_up` says whether to
    stop waiting.
    """

    def __init__(
        self,
        store: CheckpointStore,
        journal: Journal,
        timeout: float,
        should_give_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self._should_give_up = should_give_up
        self._store = store
        self._journal = journal
        self._timeout = timeout
        self._folder_identity = FolderIdentity(store.root.parent)
        self._refused_at: float | None = None
        self._last_attempt_at = 0.0
        # The best policy's checkpoint until it is written: a later checkpoint would hold another policy.
        self._pending_best: Checkpoint | None = None

    @property
    def is_retry_due(self) -> bool:
        """Whether a refused save is due again; retries are spaced, as each makes a checkpoint."""
        return self._refused_at is not None and time.monotonic() - self._last_attempt_at >= RETRY_SECONDS

    def save(self, make_checkpoint: MakeCheckpoint, best: bool = False, wait: bool = False) -> Path | None:
        """Save what `make_checkpoint(log offsets, with rows)` returns; `None` if the disk refuses.

        A refused save is retried by a later call. With `wait` this call retries until the disk accepts it or
        `should_give_up` is true. `make_checkpoint` also writes the rows of a replay buffer, which may be
        refused too: then the best policy's pending checkpoint has no rows.
        """
        checkpoint: Checkpoint | None = None
        while True:
            self._folder_identity.require_unmoved()
            try:
                checkpoint = checkpoint or make_checkpoint(self._journal.end_offsets(), True)
                if best:
                    self._pending_best = checkpoint
                folder = self._write(checkpoint)
            except StorageError as error:
                if best and checkpoint is None:
                    self._pending_best = make_checkpoint(self._journal.end_offsets(), False)
                self._on_refusal(error)
            else:
                self._refused_at = None
                return folder
            if not wait or self._should_give_up():
                return None
            time.sleep(RETRY_SECONDS)

    def _write(self, checkpoint: Checkpoint) -> Path:
        self._journal.sync()
        if self._pending_best is not None and self._pending_best is not checkpoint:
            self._store.save(self._pending_best, best=True)
            self._pending_best = None
        folder = self._store.save(checkpoint, best=checkpoint is self._pending_best)
        self._pending_best = None
        return folder

    def _on_refusal(self, error: StorageError) -> None:
        if not is_transient(error):
            raise error
        now = self._last_attempt_at = time.monotonic()
        if self._refused_at is None:
            self._refused_at = now
            log.warning("%s; trying again twice a second", error)
        if now - self._refused_at >= self._timeout:
            raise error
