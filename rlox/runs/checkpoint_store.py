"""The checkpoints that a run keeps, their `last` and `best` links, and the replay segments they use."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox._core import prune_replay
from rlox.disk import Disk, is_transient, link_target, replace_file
from rlox.errors import CheckpointError, StorageError
from rlox.runs.checkpoint import (
    MANIFEST,
    REPLAY,
    Checkpoint,
    clock_of,
    interrupted_replacements,
    manifest_digest,
    read_manifest,
    step_folders,
    write_checkpoint,
)
from rlox.types import Clock, Unit

__all__ = ["LINKS", "CheckpointStore", "replay_name"]

log = logging.getLogger("rlox.checkpoint")

LINKS = ("last", "best")  # for convenience: no run depends on them


class CheckpointStore:
    """The checkpoints of one run: the newest `keep`, and the best.

    `resume_checkpoint` is the checkpoint that the run resumed from; it exists already. The numbers
    in folder names are in `unit`.
    """

    def __init__(
        self,
        root: Path,
        keep: int,
        disk: Disk | None = None,
        resume_checkpoint: Checkpoint | None = None,
        unit: Unit = "env_steps",
    ) -> None:
        self.root = root
        self.keep = keep
        self.unit = unit
        self.disk = disk or Disk()
        self._best: str | None = None  # folder that this store linked as `best`
        for old, folder in interrupted_replacements(root):
            self.disk.rename(old, folder)
        for leftover in root.glob(".step-*") if root.is_dir() else ():
            self.disk.remove(leftover)  # left by a killed save
        for name in LINKS:
            with suppress(OSError):  # if the disk refuses, the next save reports it
                self._relink(root / name)
        self._written_folders = {self._folder_of(resume_checkpoint)} if resume_checkpoint else set()

    def save(self, checkpoint: Checkpoint, best: bool = False) -> Path:
        """Write the checkpoint, point `last` (and `best`) at it, and remove old ones.

        A second save at the same clock only updates the links and the log offsets: the state is the same, so
        the complete checkpoint stays.
        """
        folder = self._folder_of(checkpoint)
        if folder in self._written_folders:
            _update_log_offsets(folder, checkpoint.logs, self.disk)
        else:
            write_checkpoint(folder, checkpoint, self.disk)
            self._written_folders.add(folder)
        self._link("last", folder)
        if best:
            self._link("best", folder)
        try:
            self._prune(folder)
        except OSError as error:
            raise StorageError(f"cannot update {self.root}: {error}") from error
        return folder

    def link_best(self, step: int) -> None:
        """Point `best` at the checkpoint of that step, if it exists."""
        folder = self.root / _step_name(step)
        if (folder / MANIFEST).is_file():
            self._link("best", folder)

    def _link(self, name: str, folder: Path) -> None:
        """Point a link at a checkpoint; a temporary failure raises `StorageError`, others are logged."""
        if name == "best":
            self._best = folder.name
        try:
            self.disk.link(self.root / name, folder.name)
        except OSError as error:
            if is_transient(error):
                raise StorageError(f"cannot update {self.root}: {error}") from error
            log.warning("%s does not lead to %s: %s", self.root / name, folder.name, error)

    def _relink(self, path: Path) -> None:
        """If copying turned a link into a folder, replace the folder by a link to the same checkpoint."""
        path.with_name(f".{path.name}.new").unlink(missing_ok=True)  # left by a killed save
        if path.is_symlink() or not path.is_dir():
            return
        clock = clock_of(path)
        if clock is None:
            # zip leaves an empty folder; `rmdir` fails for one with files, which is not ours and stays
            path.rmdir()
            return
        same_folder = next((f for f in step_folders(self.root) if clock_of(f) == clock), None)
        if same_folder is None:
            same_folder = self.root / _step_name(int(clock[self.unit]))
            self.disk.rename(path, same_folder)
        else:
            self.disk.remove(path)
        self._link(path.name, same_folder)

    def _folder_of(self, checkpoint: Checkpoint) -> Path:
        """Return the folder of a checkpoint; its name has the updates if another one exists at its step."""
        short_folder = self.root / _step_name(checkpoint.clock[self.unit])
        long_folder = short_folder.with_name(f"{short_folder.name}-{checkpoint.clock.get('updates', 0):012d}")
        if clock_of(long_folder) == checkpoint.clock:
            return long_folder
        return short_folder if clock_of(short_folder) in (None, checkpoint.clock) else long_folder

    def _prune(self, last: Path) -> None:
        protected_names = {last.name, self._best or link_target(self.root / "best")}
        for old in step_folders(self.root)[: -self.keep]:
            if old.name not in protected_names:
                self.disk.remove(old)
        replay = self.root.parent / REPLAY
        if replay.is_dir():
            try:
                names = [read_manifest(folder).get("replay") for folder in step_folders(self.root)]
                prune_replay(replay, [name for name in names if isinstance(name, str)])
            except CheckpointError as error:  # an older checkpoint is damaged; no segment is removed
                log.warning("old segments in %s are not removed: %s", replay, error)


def replay_name(clock: Clock) -> str:
    """Return the name of a buffer's save; it has the updates, as one step may have several saves."""
    return f"{_step_name(clock.now)}-{clock.updates}"


def _step_name(step: int) -> str:
    return f"step-{step:012d}"


def _update_log_offsets(folder: Path, logs: Mapping[str, int], disk: Disk) -> None:
    """Replace the log offsets in the manifest of a whole checkpoint, atomically."""
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
    manifest["logs"] = dict(logs)
    manifest["blake2b"] = manifest_digest(manifest)
    replace_file(folder / MANIFEST, json.dumps(manifest, indent=1).encode(), disk)
