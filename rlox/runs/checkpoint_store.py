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
    replaced,
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
        for old, folder in replaced(root):
            self.disk.rename(old, folder)
        for leftover in root.glob(".step-*") if root.is_dir() else ():
            self.disk.remove(leftover)  # of a save that was killed
        self._written = {self._folder(resumed)} if resumed else set()

    def save(self, checkpoint: Checkpoint, best: bool = False) -> Path:
        """Write the checkpoint, point `last` (and `best`) at it, remove the oldest.

        A second save at the same clock only moves the links and the log offsets: the state is the
        same, and a checkpoint that is whole is never taken away.
        """
        folder = self._folder(checkpoint)
        if folder in self._written:
            _move_logs(folder, checkpoint.logs, self.disk)
        else:
            write_checkpoint(folder, checkpoint, self.disk)
            self._written.add(folder)
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
        """Where it is, or is to be; the updates are in its name if the step has another one."""
        plain = self.root / _name(checkpoint.clock[self.unit])
        longer = plain.with_name(f"{plain.name}-{checkpoint.clock.get('updates', 0):012d}")
        if _clock_of(longer) == checkpoint.clock:
            return longer
        return plain if _clock_of(plain) in (None, checkpoint.clock) else longer

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


def _clock_of(folder: Path) -> dict[str, int] | None:
    """The clock of a checkpoint; `None` where there is none, or one that cannot be read."""
    try:
        clock: dict[str, int] = read_manifest(folder)["clock"]
        return clock
    except (CheckpointError, OSError):
        return None


def _move_logs(folder: Path, logs: Mapping[str, int], disk: Disk) -> None:
    """Replace the log offsets in a whole checkpoint's manifest, in one step."""
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    manifest["logs"] = dict(logs)
    manifest["blake2b"] = own_digest(manifest)
    replace_file(folder / MANIFEST, json.dumps(manifest, indent=1).encode(), disk)
