"""Checkpoints: a folder of safetensors and JSON, whole or absent, with no code on the load path.

    step-000000100352/  manifest.json  state.json  weights.safetensors  optimizer.safetensors
                        state.safetensors  [replay/]

The manifest is written last and lists every file with size and checksum; the folder is written
under a temporary name, synced, and renamed into place. `last` and `best` are relative symlinks, or files with
the name on a disk without links; where neither is left, the manifests and `metrics.jsonl` say which they are.
The rows of a replay buffer are segments in the run's `replay/`, which its checkpoints share and of which
the manifest names a save; a checkpoint apart from a run has a `replay/` of its own.
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

from rlox.disk import Disk, target_of
from rlox.errors import CheckpointError, RloxError, StorageError
from rlox.loggers import METRICS, read_rows
from rlox.runs.preflight import available_memory
from rlox.runs.tree import pack, unpack
from rlox.sources.store import InMemory, Segments, Storable, Store

__all__ = [
    "MANIFEST",
    "REPLAY",
    "Checkpoint",
    "best_checkpoint",
    "checkpoint_bytes",
    "clock_of",
    "newest_checkpoint",
    "own_digest",
    "pass_over",
    "read_checkpoint",
    "read_manifest",
    "replaced",
    "resolve_checkpoint",
    "steps_of",
    "whole_checkpoints",
    "write_checkpoint",
]

log = logging.getLogger("rlox.checkpoint")

FORMAT = 1
MANIFEST = "manifest.json"
REPLAY = "replay"  # the folder of segments, in a run or in a checkpoint apart from one
OWN_REPLAY = "last"  # the name of the only save in the latter
MAX_MANIFEST = 1 << 20  # bytes; it is read before anything about it is known
JSON_IN_MEMORY = 18  # times its size, at most: nested lists
_NO_STATE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_OLD = ".old"
_FILES = ("state.json", "weights.safetensors", "optimizer.safetensors", "state.safetensors")
_STEP = re.compile(r"^step-\d{12}(-\d{12})?$")


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds; all trees of numbers, text and arrays."""

    config: dict[str, Any]
    clock: dict[str, int]
    weights: dict[str, Any]
    optimizer: dict[str, Any]
    state: dict[str, Any]
    logs: dict[str, int] = field(default_factory=dict)  # bytes of each log file at the save
    # where the rows of its buffer are; None: in `state`, if anywhere
    replay: Segments | None = None

    @property
    def backend(self) -> str:
        """What learned: of earlier versions, which do not say so, torch."""
        return str(self.state.get("backend", "torch"))

    @property
    def store(self) -> Store:
        """What its source fills its buffer from."""
        return self.replay or InMemory()


def write_checkpoint(
    folder: Path,
    checkpoint: Checkpoint,
    disk: Disk | None = None,
    buffer: Storable | None = None,
) -> None:
    """Write `folder` as a whole checkpoint, replacing what is there; `StorageError` if it cannot.

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
    manifest["blake2b"] = own_digest(manifest)
    _require_replaceable(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        disk.remove(partial)
        disk.make_folder(partial)
        for name, data in files.items():
            disk.write(partial / name, data)
        if buffer is not None:
            Segments(partial / REPLAY, OWN_REPLAY).keep(buffer)
        disk.write(partial / MANIFEST, json.dumps(manifest, indent=1).encode())
        disk.sync_folder(partial)
        _into_place(partial, folder, disk)
        disk.sync_folder(folder.parent)
    except OSError as error:
        disk.remove(partial)
        raise StorageError(f"cannot write checkpoint {folder}: {error}") from error


@contextmanager
def _reading() -> Iterator[None]:
    """What may not be read is not damaged: it is named, and nothing older is taken in its place."""
    try:
        yield
    except RloxError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {error.filename}: {error.strerror}") from error


@_reading()
def read_checkpoint(folder: Path) -> Checkpoint:
    """Read and verify a checkpoint; `CheckpointError` names the file and what is wrong with it,
    `StorageError` one that may not be read.
    """
    manifest = read_manifest(folder)
    data = {name: _verified(folder, name, manifest["files"][name]) for name in _FILES}
    arrays = {name: _arrays(folder, name, data[name]) for name in _FILES[1:]}
    try:
        state = json.loads(data["state.json"])
        return Checkpoint(
            config=state["config"],
            clock={str(k): int(v) for k, v in manifest["clock"].items()},
            weights=unpack(state["weights"], arrays["weights.safetensors"]),
            optimizer=unpack(state["optimizer"], arrays["optimizer.safetensors"]),
            state=unpack(state["state"], arrays["state.safetensors"]),
            logs={str(k): int(v) for k, v in manifest["logs"].items()},
            replay=_replay(folder, manifest.get("replay")),
        )
    except _NO_STATE as error:
        told = f"{folder}/state.json is not a checkpoint's state: {error}"
        raise CheckpointError(told) from error


def _replay(folder: Path, name: Any) -> Segments | None:
    """Where the rows are: in the folder itself, or in that of its run if the manifest names a save."""
    if (folder / REPLAY).is_dir():
        return Segments(folder / REPLAY, OWN_REPLAY)
    shared = folder.resolve().parent.parent / REPLAY
    return Segments(shared, name) if isinstance(name, str) and shared.is_dir() else None


@_reading()
def resolve_checkpoint(run: Path, name: str = "last") -> Path:
    """The folder of checkpoint `name` (`last`, `best`, `step-...`) of a run, or of a path to one.

    A folder with a manifest is the checkpoint, whatever its name. `last` of a run is the newest whole
    checkpoint, whatever the link of that name says; without an evaluation during training, `best` is `last`.
    """
    if (run / MANIFEST).exists():
        return run
    if not run.exists() and (_old(run) / MANIFEST).exists():
        return _old(run)  # killed while it was being replaced
    if (place := run.absolute()).name in ("last", "best") and place.parent.name == "checkpoints":
        owner = place.parent.parent
        if (owner / "config.yaml").is_file():  # a run, and a copy left nothing of its link
            return resolve_checkpoint(owner, place.name)
        if (found := _named(place)) is not None:
            return found
    root = run / "checkpoints"
    found = _inside(root, name) if _STEP.match(name) else None
    if found is None and name == "best":
        found = best_checkpoint(run)
    if found is None and name in ("last", "best"):
        found = newest_checkpoint(run)
    if found is not None:
        return found
    there = ", ".join(p.name for p in steps_of(root))
    if there and name in ("last", "best"):
        raise CheckpointError(f"{run} has only damaged checkpoints: {there}")
    if there:
        raise CheckpointError(f"{run} has no checkpoint '{name}'; it has {there}")
    if (run / "config.yaml").is_file():
        raise CheckpointError(
            f"{run} has no checkpoint: one is saved every checkpoint.every steps and when the run "
            "ends or is stopped"
        )
    raise CheckpointError(f"{run} has no checkpoint; is it a run folder or a checkpoint?")


def best_checkpoint(run: Path) -> Path | None:
    """The checkpoint of the best evaluation on the way; `None` where there was none.

    It is what `best` leads to, or names where it is a file. A copy of the folder may have the checkpoint
    itself in its place, or nothing: then the log says which evaluation was best.
    """
    best = (root := run / "checkpoints") / "best"
    if (found := _named(best)) is not None:
        return found
    if not best.is_symlink() and (clock := clock_of(best)) is not None:
        return next((folder for folder in steps_of(root) if clock_of(folder) == clock), best)
    there = [(clock_of(folder) or {}, folder) for folder in steps_of(root)]
    found, highest = None, -math.inf
    for row in read_rows(run / METRICS):
        mean = row.get("eval/return_mean") if isinstance(row, dict) else None
        if isinstance(mean, int | float) and mean > highest:
            for clock, folder in there:
                if clock and all(row.get(name, at) == at for name, at in clock.items()):
                    found, highest = folder, mean
    return found


def _named(link: Path) -> Path | None:
    """The checkpoint that a link leads to, or that the file in its place names."""
    target = target_of(link)
    return _inside(link.parent, target) if target is not None and _STEP.match(target) else None


def _inside(root: Path, name: str) -> Path | None:
    """The checkpoint of that name in a root; a link that leads elsewhere is not followed."""
    found = (root / name).resolve()
    return found if found.parent == root.resolve() and (found / MANIFEST).exists() else None


def clock_of(folder: Path) -> dict[str, int] | None:
    """The clock of a checkpoint; `None` where there is none, or one that cannot be read."""
    try:
        return dict(read_manifest(folder)["clock"])
    except (CheckpointError, OSError):
        return None


@_reading()
def newest_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint of a run that reads back whole; `None` before the first."""
    return next((folder for folder, _ in whole_checkpoints(run)), None)


def whole_checkpoints(run: Path) -> Iterator[tuple[Path, Checkpoint]]:
    """The checkpoints of a run that read back whole, newest first; the others are warned of."""
    with _reading():
        steps = steps_of(run / "checkpoints")
    for folder in reversed(steps):
        try:
            saved = read_checkpoint(folder)
        except CheckpointError as error:
            pass_over(folder, error)
        else:
            yield folder, saved


def pass_over(folder: Path, error: CheckpointError) -> None:
    """Say that a checkpoint is not used, and why."""
    log.warning("passing over %s: %s", folder.name, error)


def steps_of(root: Path) -> list[Path]:
    """The step folders of a checkpoint root, oldest first."""
    if not root.is_dir():
        return []
    found = {p.name: p for p in root.iterdir() if _STEP.match(p.name)}
    found.update((folder.name, old) for old, folder in replaced(root))
    return [found[name] for name in sorted(found)]


def replaced(root: Path) -> list[tuple[Path, Path]]:
    """Checkpoints whose replacement was killed before the new one was in its place, and that place."""
    waiting = [(old, root / old.name[1 : -len(_OLD)]) for old in root.glob(f".step-*{_OLD}")]
    return [(old, folder) for old, folder in waiting if not folder.exists()]


def checkpoint_bytes(checkpoint: Checkpoint) -> int:
    """About how large the checkpoint will be on disk."""
    arrays: dict[str, NDArray[Any]] = {}
    trees = {part: getattr(checkpoint, part) for part in ("weights", "optimizer", "state")}
    text = json.dumps(pack(trees, arrays), indent=1)
    return len(text) + sum(a.nbytes for a in arrays.values()) + (64 << 10)


def _encode(checkpoint: Checkpoint) -> dict[str, bytes]:
    arrays: dict[str, dict[str, NDArray[Any]]] = {"weights": {}, "optimizer": {}, "state": {}}
    document: dict[str, Any] = {"config": checkpoint.config}
    for part, named in arrays.items():
        document[part] = pack(getattr(checkpoint, part), named)
    files = {"state.json": json.dumps(document, indent=1).encode()}
    return files | {f"{n}.safetensors": safetensors.numpy.save(a) for n, a in arrays.items()}


def _into_place(partial: Path, folder: Path, disk: Disk) -> None:
    old = _old(folder)
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


def _old(folder: Path) -> Path:
    """Where the checkpoint that is being replaced waits until the new one is in its place."""
    return folder.with_name(f".{folder.name}{_OLD}")


def _require_replaceable(folder: Path) -> None:
    """A checkpoint or an empty folder may be replaced; anything else is somebody's work."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        theirs = True
    else:
        theirs = folder.exists() and not (folder / MANIFEST).is_file() and any(folder.iterdir())
    if theirs:
        raise StorageError(
            f"{folder} is there and is not a checkpoint, so it is not replaced; choose another path"
        )


def own_digest(manifest: Mapping[str, Any]) -> str:
    """The checksum of a manifest's other entries."""
    rest = {k: v for k, v in manifest.items() if k != "blake2b"}
    return _digest(json.dumps(rest, sort_keys=True).encode())


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of a checkpoint; `CheckpointError` says what is wrong with it."""
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
        raise CheckpointError(
            f"{path} has format {version}, expected {FORMAT}; use another version"
        )
    if manifest.get("blake2b") != own_digest(manifest):
        raise CheckpointError(f"{path} is damaged: its checksum differs from its content")
    if not all(isinstance(v, Mapping) for v in (manifest.get("clock"), manifest.get("logs"))):
        raise CheckpointError(f"{path} is damaged: no clock or logs")
    return {**manifest, "files": entries}


def _verified(folder: Path, name: str, entry: tuple[int, str]) -> bytes:
    path = folder / name
    if path.is_symlink() or not path.is_file():
        raise CheckpointError(f"{path} is missing or not a plain file")
    size, digest = entry
    if path.stat().st_size != size:
        raise CheckpointError(f"{path} has {path.stat().st_size} bytes, expected {size}")
    memory = available_memory() if name == "state.json" else None
    if memory is not None and JSON_IN_MEMORY * size > memory:
        raise CheckpointError(
            f"{path} has {size} bytes, to read it may take {JSON_IN_MEMORY * size} bytes of memory and "
            f"{memory} are available; free some"
        )
    data = path.read_bytes()
    if _digest(data) != digest:
        raise CheckpointError(f"{path} is damaged: its checksum differs from the manifest's")
    return data


def _arrays(folder: Path, name: str, data: bytes) -> dict[str, NDArray[np.generic]]:
    try:
        return dict(safetensors.numpy.load(data))
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder / name} is not a safetensors file: {error}") from error


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()
