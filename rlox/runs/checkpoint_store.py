"""The checkpoints that a run keeps, the links to them, and the replay that they name."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox._core import prune_replay
from rlox.disk import Disk, may_pass, replace_file, target_of
from rlox.errors import CheckpointError, StorageError
from rlox.runs.checkpoint import (
    MANIFEST,
    REPLAY,
    Checkpoint,
    clock_of,
    own_digest,
    read_manifest,
    replaced,
    steps_of,
    write_checkpoint,
)
from rlox.types import Clock, Unit

__all__ = ["LINKS", "CheckpointStore", "replay_name"]

log = logging.getLogger("rlox.checkpoint")

LINKS = ("last", "best")  # a convenience: nothing that a run does depends on them


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
        self._best: str | None = None  # once this store has linked one
        for old, folder in replaced(root):
            self.disk.rename(old, folder)
        for leftover in root.glob(".step-*") if root.is_dir() else ():
            self.disk.remove(leftover)  # of a save that was killed
        for name in LINKS:
            with suppress(OSError):  # a disk that refuses shows it in the next save
                self._relink(root / name)
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
        self._link("last", folder)
        if best:
            self._link("best", folder)
        try:
            self._prune(folder)
        except OSError as error:
            raise StorageError(f"cannot update {self.root}: {error}") from error
        return folder

    def link_best(self, step: int) -> None:
        """Point `best` at the checkpoint of that step, if there is one."""
        folder = self.root / _name(step)
        if (folder / MANIFEST).is_file():
            self._link("best", folder)

    def _link(self, name: str, folder: Path) -> None:
        """Point a link at a checkpoint; one that cannot be made costs no run its checkpoints."""
        if name == "best":
            self._best = folder.name
        try:
            self.disk.link(self.root / name, folder.name)
        except OSError as error:
            if may_pass(error):
                raise StorageError(f"cannot update {self.root}: {error}") from error
            log.warning("%s does not lead to %s: %s", self.root / name, folder.name, error)

    def _relink(self, path: Path) -> None:
        """Make a link again of the folder that copying made of it, whose checkpoint is there besides."""
        path.with_name(f".{path.name}.new").unlink(missing_ok=True)  # of a save that was killed
        if path.is_symlink() or not path.is_dir():
            return
        clock = clock_of(path)
        if clock is None:
            path.rmdir()  # zip leaves an empty folder; what has files in it is not ours, and stays
            return
        same = next((f for f in steps_of(self.root) if clock_of(f) == clock), None)
        if same is None:
            same = self.root / _name(int(clock[self.unit]))
            self.disk.rename(path, same)
        else:
            self.disk.remove(path)
        self._link(path.name, same)

    def _folder(self, checkpoint: Checkpoint) -> Path:
        """Where it is, or is to be; the updates are in its name if the step has another one."""
        plain = self.root / _name(checkpoint.clock[self.unit])
        longer = plain.with_name(f"{plain.name}-{checkpoint.clock.get('updates', 0):012d}")
        if clock_of(longer) == checkpoint.clock:
            return longer
        return plain if clock_of(plain) in (None, checkpoint.clock) else longer

    def _prune(self, last: Path) -> None:
        named = {last.name, self._best or target_of(self.root / "best")}
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
