"""The checkpoints that a run keeps, the links to them, and the replay that they name."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlox._core import prune_replay
from rlox.disk import Disk, replace_file
from rlox.errors import CheckpointError, StorageError
from rlox.runs.checkpoint import (
    MANIFEST,
    REPLAY,
    Checkpoint,
    own_digest,
    read_manifest,
    steps_of,
    write_checkpoint,
)
from rlox.types import Clock, Unit

__all__ = ["CheckpointStore", "replay_name"]

log = logging.getLogger("rlox.checkpoint")


class CheckpointStore:
    """The checkpoints of one run: the newest `keep`, and the best.

    `resumed` is the one that the run goes on from: it is there already, whole. `unit` is what their
    names count.
    """

    def __init__(
        self,
        root: Path,
        keep: int,
        disk: Disk | None = None,
        resumed: Checkpoint | None = None,
        unit: Unit = "env_steps",
    ) -> None:
        self.root = root
        self.keep = keep
        self.unit = unit
        self.disk = disk or Disk()
        self._written = {self._folder(resumed): resumed.clock} if resumed else {}
        for leftover in root.glob(".step-*") if root.is_dir() else ():
            self.disk.remove(leftover)  # of a save that was killed

    def save(self, checkpoint: Checkpoint, best: bool = False) -> Path:
        """Write the checkpoint, point `last` (and `best`) at it, remove the oldest.

        A second save at the same clock only moves the links and the log offsets: the state is the
        same, and a checkpoint that is whole is never taken away.
        """
        folder = self._folder(checkpoint)
        if self._written.get(folder) == checkpoint.clock:
            _move_logs(folder, checkpoint.logs, self.disk)
        else:
            write_checkpoint(folder, checkpoint, self.disk)
            self._written[folder] = checkpoint.clock
        try:
            self.disk.link(self.root / "last", folder.name)
            if best:
                self.disk.link(self.root / "best", folder.name)
            self._prune()
        except OSError as error:
            raise StorageError(f"cannot update {self.root}: {error}") from error
        return folder

    def link_best(self, step: int) -> None:
        """Point `best` at the checkpoint of that step, if there is one."""
        folder = self.root / _name(step)
        if (folder / MANIFEST).is_file():
            try:
                self.disk.link(self.root / "best", folder.name)
            except OSError as error:
                raise StorageError(f"cannot update {self.root}: {error}") from error

    def _folder(self, checkpoint: Checkpoint) -> Path:
        return self.root / _name(checkpoint.clock[self.unit])

    def _prune(self) -> None:
        named = {(self.root / n).resolve().name for n in ("last", "best")}
        for old in steps_of(self.root)[: -self.keep]:
            if old.name not in named:
                self.disk.remove(old)
        replay = self.root.parent / REPLAY
        if replay.is_dir():
            try:
                names = [read_manifest(folder).get("replay") for folder in steps_of(self.root)]
                prune_replay(replay, [name for name in names if isinstance(name, str)])
            except CheckpointError as error:  # of an older save: nothing is removed
                log.warning("%s is not tidied: %s", replay, error)


def replay_name(clock: Clock) -> str:
    """What the save of a buffer is called: within one step of the unit there may be several updates."""
    return f"{_name(clock.now)}-{clock.updates}"


def _name(step: int) -> str:
    return f"step-{step:012d}"


def _move_logs(folder: Path, logs: Mapping[str, int], disk: Disk) -> None:
    """Replace the log offsets in a whole checkpoint's manifest, in one step."""
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    manifest["logs"] = dict(logs)
    manifest["blake2b"] = own_digest(manifest)
    replace_file(folder / MANIFEST, json.dumps(manifest, indent=1).encode(), disk)
