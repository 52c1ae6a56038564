"""Shared parts of sinks that send a run elsewhere: its remote id, the record of sent files, its data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox.configs import RunConfig, dotted_items, to_plain
from rlox.configs.secrets import HIDDEN, is_secret
from rlox.disk import link_target, read_file, replace_file
from rlox.loggers.base import Row, RunInfo
from rlox.loggers.jsonl import METRICS, iter_rows

__all__ = ["SyncRecord", "first_rows", "hyperparameters", "read_result", "run_info"]

# Sections that determine what a run learns: not its folder, nor its loggers.
HYPERPARAMETER_KEYS = ("algo", "env", "buffer", "seed", "total_steps", "device")

FILE_PATTERNS = ("provenance.json", "result.json", "plots/*.png", "videos/*.mp4", "eval/*.json")
CHECKPOINTS = ("last", "best")
FOLDER_KEY = "folder"  # where the run folder was when the record was written


def hyperparameters(run: RunConfig) -> dict[str, Any]:
    """Return the settings that determine what a run learns, by dotted key.

    Values of keys named like secrets are `***`.
    """
    config = _mask_secrets(to_plain(run))
    return dict(dotted_items({key: value for key, value in config.items() if key in HYPERPARAMETER_KEYS}))


def run_info(logger_config: Mapping[str, Any], run_dir: Path, run: RunConfig) -> RunInfo:
    """Make the `RunInfo` for a process that sends the run."""
    return RunInfo(
        logger_config=logger_config,
        config=_mask_secrets(to_plain(run)),
        hyperparameters=hyperparameters(run),
        unit=run.algo.unit,
        name=run.run.name or run_dir.absolute().name,
        tags=list(run.run.tags),
    )


class SyncRecord:
    """`loggers/<name>.runs.json`: for each destination, the run's id there and the files already sent.

    `data[key]` is the id. A moved folder keeps it. A copy of a folder that still exists starts without an id,
    so that two folders never write to the same run.
    """

    def __init__(self, run_dir: Path, name: str, target: str, key: str = "id") -> None:
        self._run_dir = run_dir
        self._file = run_dir / "loggers" / f"{name}.runs.json"
        self._target, self._key = target, key
        self._all_targets: dict[str, Any] = {}
        with suppress(OSError, ValueError, RecursionError):
            content = json.loads(self._file.read_bytes())
            self._all_targets = content if isinstance(content, dict) else {}
        record = self._all_targets.get(target)
        self.data: dict[str, Any] = record if isinstance(record, dict) else {}
        if self._is_copied_folder():
            self.data = {}

    def ensure_id(self, new_id: str) -> str:
        """Return the run's id, or `new_id` if it has none yet; save it with the path of the folder."""
        self.save(**{self._key: self.data.get(self._key, new_id)})
        return str(self.data[self._key])

    def save(self, **values: Any) -> None:
        """Save the record with these values added."""
        self.data |= {FOLDER_KEY: str(self._run_dir.absolute()), **values}
        self._all_targets[self._target] = self.data
        self._file.parent.mkdir(exist_ok=True)
        replace_file(self._file, json.dumps(self._all_targets, indent=1).encode() + b"\n")

    def _is_copied_folder(self) -> bool:
        """Whether the recorded folder still exists elsewhere and has the same id."""
        with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
            recorded_folder = Path(self.data[FOLDER_KEY])
            if not recorded_folder.samefile(self._run_dir):
                other_record = json.loads(read_file(recorded_folder / "loggers" / self._file.name))
                return bool(other_record[self._target][self._key] == self.data[self._key])
        return False

    def unsent(self, checkpoints: bool) -> dict[str, Path]:
        """Return the files and checkpoint folders changed since they were sent, by path in the folder."""
        sent = self.data.get("sent", {})
        current = dict(_files_to_send(self._run_dir))
        if checkpoints:
            current |= dict(_checkpoints_to_send(self._run_dir))
        return {name: path for name, path in current.items() if sent.get(name) != _fingerprint(path)}

    def note_sent(self, paths: Mapping[str, Path]) -> None:
        """Record that these files and checkpoint folders were sent."""
        fingerprints = {name: _fingerprint(path) for name, path in paths.items()}
        self.save(sent={**self.data.get("sent", {}), **fingerprints})


def first_rows(run_dir: Path, count: int) -> list[Row]:
    """Return the first `count` rows of the run."""
    rows: list[Row] = []
    if count and (run_dir / METRICS).exists():
        for row, _ in iter_rows(run_dir / METRICS):
            rows.append(row)
            if len(rows) == count:
                break
    return rows


def read_result(run_dir: Path) -> dict[str, Any]:
    """Read `result.json`; empty if the run has none yet."""
    with suppress(OSError, ValueError, RecursionError):
        result = json.loads((run_dir / "result.json").read_bytes())
        if isinstance(result, dict):
            return result
    return {}


def _files_to_send(run_dir: Path) -> Iterator[tuple[str, Path]]:
    for pattern in FILE_PATTERNS:
        for path in sorted(run_dir.glob(pattern)):
            if path.is_file() and not path.is_symlink():  # a link may lead outside the run folder
                yield path.relative_to(run_dir).as_posix(), path


def _checkpoints_to_send(run_dir: Path) -> Iterator[tuple[str, Path]]:
    """Yield the target folders of `last` and `best`, if they are siblings of these links."""
    checkpoints_folder = run_dir / "checkpoints"
    for name in CHECKPOINTS:
        path = checkpoints_folder / (link_target(checkpoints_folder / name) or name)
        is_sibling = path.parent == checkpoints_folder and path.name != ".." and not path.is_symlink()
        if is_sibling and (path / "manifest.json").is_file():
            yield f"checkpoints/{name}", path


def _fingerprint(path: Path) -> str:
    """Return a hash of the content; for a checkpoint, of its manifest, which has its files' checksums."""
    file = path / "manifest.json" if path.is_dir() else path
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _mask_secrets(data: Any) -> Any:
    """Replace values of keys named like secrets by `***`."""
    if isinstance(data, dict):
        return {k: HIDDEN if is_secret(str(k)) and v else _mask_secrets(v) for k, v in data.items()}
    if isinstance(data, list):
        return [_mask_secrets(value) for value in data]
    return data
