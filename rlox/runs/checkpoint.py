"""Checkpoints: folders of safetensors and JSON files, complete or absent; they contain no code.

    step-000000100352/  manifest.json  state.json  weights.safetensors  optimizer.safetensors
                        state.safetensors  [replay/]

The manifest is written last and lists every file with its size and checksum. The folder is written under a
temporary name, synced, and renamed into place. `last` and `best` are relative symlinks, or files with the
target's name on a disk without links. If they are lost, the manifests tell the newest checkpoint, and
`metrics.jsonl` the best one.
The rows of a replay buffer are segments in the run's `replay/`, shared by its checkpoints; each manifest
names a save there. A checkpoint outside a run has its own `replay/`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from rlox.disk import Disk, link_target
from rlox.errors import CheckpointError, RloxError, StorageError
from rlox.loggers import METRICS, read_rows
from rlox.runs.preflight import available_memory
from rlox.sources.store import InMemoryStore, SegmentStore, Storable, Store
from rlox.state_tree import pack, unpack

__all__ = [
    "MANIFEST",
    "REPLAY",
    "Checkpoint",
    "best_checkpoint",
    "checkpoint_bytes",
    "clock_of",
    "intact_checkpoints",
    "interrupted_replacements",
    "manifest_digest",
    "newest_checkpoint",
    "read_checkpoint",
    "read_manifest",
    "resolve_checkpoint",
    "step_folders",
    "warn_skipped",
    "write_checkpoint",
]

log = logging.getLogger("rlox.checkpoint")

FORMAT = 1
MANIFEST = "manifest.json"
REPLAY = "replay"  # the folder of segments, in a run or in a checkpoint outside one
OWN_REPLAY = "last"  # the name of the only save in a checkpoint's own `replay/`
MAX_MANIFEST = 1 << 20  # bytes; limits the read, as the file is not verified yet
MAX_JSON_EXPANSION = 18  # parsing takes at most this times the file's size, for nested lists
_STATE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_BACKUP_SUFFIX = ".old"
_FILES = ("state.json", "weights.safetensors", "optimizer.safetensors", "state.safetensors")
_STEP = re.compile(r"^step-\d{12}(-\d{12})?$")


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint: trees of numbers, text and arrays."""

    config: dict[str, Any]
    clock: dict[str, int]
    weights: dict[str, Any]
    optimizer: dict[str, Any]
    state: dict[str, Any]
    logs: dict[str, int] = field(default_factory=dict)  # bytes of each log file at the save
    # the buffer's rows; None: they are in `state`, if they were saved
    replay: SegmentStore | None = None

    @property
    def backend(self) -> str:
        """The engine that learned; `torch` for earlier versions, which did not save it."""
        return str(self.state.get("backend", "torch"))

    @property
    def store(self) -> Store:
        """The store from which the source loads its buffer."""
        return self.replay or InMemoryStore()


def write_checkpoint(
    folder: Path,
    checkpoint: Checkpoint,
    disk: Disk | None = None,
    buffer: Storable | None = None,
) -> None:
    """Write `folder` as a whole checkpoint, replacing an existing one; raise `StorageError` on failure.

    The rows of `buffer` go into the folder itself.
    """
    disk = disk or Disk()
    files = _encode(checkpoint)
    manifest = {
        "format": FORMAT,
        "clock": checkpoint.clock,
        "logs": checkpoint.logs,
        "files": {n: {"bytes": len(d), "blake2b": _digest(d)} for n, d in files.items()},
        "replay": checkpoint.replay.name if checkpoint.replay else None,
    }
    manifest["blake2b"] = manifest_digest(manifest)
    _require_replaceable(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        disk.remove(partial)
        disk.make_folder(partial)
        for name, data in files.items():
            disk.write(partial / name, data)
        if buffer is not None:
            SegmentStore(partial / REPLAY, OWN_REPLAY).save(buffer)
        disk.write(partial / MANIFEST, json.dumps(manifest, indent=1).encode())
        disk.sync_folder(partial)
        _move_into_place(partial, folder, disk)
        disk.sync_folder(folder.parent)
    except OSError as error:
        disk.remove(partial)
        raise StorageError(f"cannot write checkpoint {folder}: {error}") from error


@contextmanager
def _read_errors() -> Iterator[None]:
    """Raise `StorageError` if a file cannot be read: it may be intact, so no older checkpoint is used."""
    try:
        yield
    except RloxError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {error.filename}: {error.strerror}") from error


@_read_errors()
def read_checkpoint(folder: Path) -> Checkpoint:
    """Read and verify a checkpoint; `CheckpointError` names the damage, `StorageError` an unreadable file."""
    manifest = read_manifest(folder)
    data = {name: _read_verified(folder, name, manifest["files"][name]) for name in _FILES}
    arrays = {name: _load_arrays(folder, name, data[name]) for name in _FILES[1:]}
    try:
        state = json.loads(data["state.json"])
        return Checkpoint(
            config=state["config"],
            clock={str(k): int(v) for k, v in manifest["clock"].items()},
            weights=unpack(state["weights"], arrays["weights.safetensors"]),
            optimizer=unpack(state["optimizer"], arrays["optimizer.safetensors"]),
            state=unpack(state["state"], arrays["state.safetensors"]),
            logs={str(k): int(v) for k, v in manifest["logs"].items()},
            replay=_replay_segments(folder, manifest.get("replay")),
        )
    except _STATE_ERRORS as error:
        message = f"{folder}/state.json is not a checkpoint's state: {error}"
        raise CheckpointError(message) from error


def _replay_segments(folder: Path, name: Any) -> SegmentStore | None:
    """Return the segments in the folder itself, or in its run's `replay/` if the manifest names a save."""
    if (folder / REPLAY).is_dir():
        return SegmentStore(folder / REPLAY, OWN_REPLAY)
    shared_folder = folder.resolve().parent.parent / REPLAY
    return SegmentStore(shared_folder, name) if isinstance(name, str) and shared_folder.is_dir() else None


@_read_errors()
def resolve_checkpoint(run_dir: Path, name: str = "last") -> Path:
    """Return the folder of checkpoint `name` (`last`, `best`, `step-...`) of a run.

    `run_dir` may also be a checkpoint itself, or a path to its link; then `name` has no effect. `last` is the
    newest intact checkpoint, whatever the link says. `best` is `last` if training had no evaluation.
    """
    if (run_dir / MANIFEST).exists():
        return run_dir
    if not run_dir.exists() and (_backup_path(run_dir) / MANIFEST).exists():
        return _backup_path(run_dir)  # the process was killed during a replacement
    if (link_path := run_dir.absolute()).name in ("last", "best") and link_path.parent.name == "checkpoints":
        owner_dir = link_path.parent.parent
        if (owner_dir / "config.yaml").is_file():  # a run whose link was lost in copying
            return resolve_checkpoint(owner_dir, link_path.name)
        if (checkpoint := _linked_checkpoint(link_path)) is not None:
            return checkpoint
    root = run_dir / "checkpoints"
    checkpoint = _checkpoint_in(root, name) if _STEP.match(name) else None
    if checkpoint is None and name == "best":
        checkpoint = best_checkpoint(run_dir)
    if checkpoint is None and name in ("last", "best"):
        checkpoint = newest_checkpoint(run_dir)
    if checkpoint is not None:
        return checkpoint
    names = ", ".join(p.name for p in step_folders(root))
    if names and name in ("last", "best"):
        raise CheckpointError(f"{run_dir} has only damaged checkpoints: {names}")
    if names:
        raise CheckpointError(f"{run_dir} has no checkpoint '{name}'; it has {names}")
    if (run_dir / "config.yaml").is_file():
        raise CheckpointError(
            f"{run_dir} has no checkpoint: one is saved every checkpoint.every steps and when the run "
            "ends or is stopped"
        )
    raise CheckpointError(f"{run_dir} has no checkpoint; is it a run folder or a checkpoint?")


def best_checkpoint(run_dir: Path) -> Path | None:
    """Return the checkpoint of the best evaluation during training; `None` if there was none.

    It is the target of `best`, a link or a file with the target's name. In a copied run folder `best` may be
    the checkpoint itself. If `best` is missing, the log says which evaluation was best.
    """
    link_path = (root := run_dir / "checkpoints") / "best"
    if (best_folder := _linked_checkpoint(link_path)) is not None:
        return best_folder
    if not link_path.is_symlink() and (clock := clock_of(link_path)) is not None:
        return next((folder for folder in step_folders(root) if clock_of(folder) == clock), link_path)
    candidates = [(clock_of(folder) or {}, folder) for folder in step_folders(root)]
    best_folder, highest = None, -math.inf
    for row in read_rows(run_dir / METRICS):
        mean = row.get("eval/return_mean") if isinstance(row, dict) else None
        if isinstance(mean, int | float) and mean > highest:
            for clock, folder in candidates:
                if clock and all(row.get(name, steps) == steps for name, steps in clock.items()):
                    best_folder, highest = folder, mean
    return best_folder


def _linked_checkpoint(link: Path) -> Path | None:
    """Return the checkpoint that a link points to, or whose name a file in place of the link contains."""
    target = link_target(link)
    return _checkpoint_in(link.parent, target) if target is not None and _STEP.match(target) else None


def _checkpoint_in(root: Path, name: str) -> Path | None:
    """Return the checkpoint of that name in a root; a link that leads elsewhere is not followed."""
    folder = (root / name).resolve()
    return folder if folder.parent == root.resolve() and (folder / MANIFEST).exists() else None


def clock_of(folder: Path) -> dict[str, int] | None:
    """Return the clock of a checkpoint; `None` if there is none or it cannot be read."""
    try:
        return dict(read_manifest(folder)["clock"])
    except (CheckpointError, OSError):
        return None


@_read_errors()
def newest_checkpoint(run_dir: Path) -> Path | None:
    """Return the newest intact checkpoint of a run; `None` before the first."""
    return next((folder for folder, _ in intact_checkpoints(run_dir)), None)


def intact_checkpoints(run_dir: Path) -> Iterator[tuple[Path, Checkpoint]]:
    """Yield the intact checkpoints of a run, newest first; log a warning for each damaged one."""
    with _read_errors():
        folders = step_folders(run_dir / "checkpoints")
    for folder in reversed(folders):
        try:
            checkpoint = read_checkpoint(folder)
        except CheckpointError as error:
            warn_skipped(folder, error)
        else:
            yield folder, checkpoint


def warn_skipped(folder: Path, error: CheckpointError) -> None:
    """Log that a checkpoint is skipped, and why."""
    log.warning("passing over %s: %s", folder.name, error)


def step_folders(root: Path) -> list[Path]:
    """Return the step folders of a checkpoint root, oldest first."""
    if not root.is_dir():
        return []
    by_name = {p.name: p for p in root.iterdir() if _STEP.match(p.name)}
    by_name.update((folder.name, old) for old, folder in interrupted_replacements(root))
    return [by_name[name] for name in sorted(by_name)]


def interrupted_replacements(root: Path) -> list[tuple[Path, Path]]:
    """Return backups of checkpoints, with their original paths, if a kill interrupted the replacement."""
    backups = [
        (old, root / old.name[1 : -len(_BACKUP_SUFFIX)]) for old in root.glob(f".step-*{_BACKUP_SUFFIX}")
    ]
    return [(old, folder) for old, folder in backups if not folder.exists()]


def checkpoint_bytes(checkpoint: Checkpoint) -> int:
    """Return the approximate size of the checkpoint on disk."""
    arrays: dict[str, NDArray[Any]] = {}
    trees = {part: getattr(checkpoint, part) for part in ("weights", "optimizer", "state")}
    text = json.dumps(pack(trees, arrays), indent=1)
    return len(text) + sum(a.nbytes for a in arrays.values()) + (64 << 10)


def _encode(checkpoint: Checkpoint) -> dict[str, bytes]:
    arrays: dict[str, dict[str, NDArray[Any]]] = {"weights": {}, "optimizer": {}, "state": {}}
    document: dict[str, Any] = {"config": checkpoint.config}
    for part, part_arrays in arrays.items():
        document[part] = pack(getattr(checkpoint, part), part_arrays)
    files = {"state.json": json.dumps(document, indent=1).encode()}
    return files | {f"{n}.safetensors": safetensors.numpy.save(a) for n, a in arrays.items()}


def _move_into_place(partial: Path, folder: Path, disk: Disk) -> None:
    old = _backup_path(folder)
    if folder.exists():
        disk.remove(old)
        disk.rename(folder, old)
    try:
        disk.rename(partial, folder)
    except OSError:
        if old.exists():
            disk.rename(old, folder)
        raise
    disk.remove(old)


def _backup_path(folder: Path) -> Path:
    """Return the path that holds the old checkpoint while a new one replaces it."""
    return folder.with_name(f".{folder.name}{_BACKUP_SUFFIX}")


def _require_replaceable(folder: Path) -> None:
    """Raise `StorageError` unless `folder` is absent, empty or a checkpoint: other files are not replaced."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        is_foreign = True
    else:
        is_foreign = folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir())
    if is_foreign:
        raise StorageError(
            f"{folder} exists and is not a checkpoint, so rlox does not replace it; choose another path"
        )


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest's other entries."""
    entries = {k: v for k, v in manifest.items() if k != "blake2b"}
    return _digest(json.dumps(entries, sort_keys=True).encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read and check the manifest of a checkpoint; `CheckpointError` says what is wrong with it."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        raise CheckpointError(f"{folder} has no {MANIFEST}: not a whole checkpoint")
    if path.stat().st_size > MAX_MANIFEST:
        raise CheckpointError(f"{path} has {path.stat().st_size} bytes: not a manifest")
    try:
        manifest: dict[str, Any] = json.loads(path.read_bytes())
        version, files = manifest["format"], manifest["files"]
        entries = {name: (files[name]["bytes"], files[name]["blake2b"]) for name in _FILES}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is damaged: {error!r}") from error
    if version != FORMAT:
        raise CheckpointError(f"{path} has format {version}, expected {FORMAT}; use another version of rlox")
    if manifest.get("blake2b") != manifest_digest(manifest):
        raise CheckpointError(f"{path} is damaged: its checksum differs from its content")
    if not all(isinstance(v, Mapping) for v in (manifest.get("clock"), manifest.get("logs"))):
        raise CheckpointError(f"{path} is damaged: no clock or logs")
    return {**manifest, "files": entries}


def _read_verified(folder: Path, name: str, entry: tuple[int, str]) -> bytes:
    path = folder / name
    if path.is_symlink() or not path.is_file():
        raise CheckpointError(f"{path} is missing or not a plain file")
    size, digest = entry
    if path.stat().st_size != size:
        raise CheckpointError(f"{path} has {path.stat().st_size} bytes, expected {size}")
    memory = available_memory() if name == "state.json" else None
    if memory is not None and MAX_JSON_EXPANSION * size > memory:
        raise CheckpointError(
            f"{path} has {size} bytes; reading it may take {MAX_JSON_EXPANSION * size} bytes of memory, "
            f"{memory} are available; free some"
        )
    data = path.read_bytes()
    if _digest(data) != digest:
        raise CheckpointError(f"{path} is damaged: its checksum differs from the manifest's")
    return data


def _load_arrays(folder: Path, name: str, data: bytes) -> dict[str, NDArray[np.generic]]:
    try:
        return dict(safetensors.numpy.load(data))
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder / name} is not a safetensors file: {error}") from error


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()
