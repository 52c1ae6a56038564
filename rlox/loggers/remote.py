"""What sinks that send a run elsewhere share: its id there, what was sent, and what there is to send."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox.configs import RunConfig, leaves, plain
from rlox.configs.secrets import HIDDEN, is_secret
from rlox.disk import read_file, replace_file, target_of
from rlox.loggers.base import Row, Told
from rlox.loggers.jsonl import METRICS, rows_from

__all__ = ["Record", "first_rows", "hyperparameters", "result_of", "told"]

# What decides what a run learns: not where it lies, nor how it is watched.
DECIDING = ("algo", "env", "buffer", "seed", "total_steps", "device")

FILES = ("provenance.json", "result.json", "plots/*.png", "videos/*.mp4", "eval/*.json")
CHECKPOINTS = ("last", "best")
PLACE = "folder"  # where the run folder was when the record was written


def hyperparameters(run: RunConfig) -> dict[str, Any]:
    """What decides what a run learns, by dotted key: not where it lies, nor how it is watched.

    Values of keys named like secrets are `***`.
    """
    config = _masked(plain(run))
    return dict(leaves({key: value for key, value in config.items() if key in DECIDING}))


def told(own: Mapping[str, Any], folder: Path, run: RunConfig) -> Told:
    """What a process that sends the run is told."""
    return Told(
        own=own,
        config=_masked(plain(run)),
        hyperparameters=hyperparameters(run),
        unit=run.algo.unit,
        name=run.run.name or folder.absolute().name,
        tags=list(run.run.tags),
    )


class Record:
    """`loggers/<name>.runs.json`: by where a run was sent, its id there and the files that went along.

    `data[key]` is the id. A folder that was moved keeps it. A copy beside the folder that it was copied from
    begins without one, so that two folders never write to the same run.
    """

    def __init__(self, folder: Path, name: str, target: str, key: str = "id") -> None:
        self._folder = folder
        self._file = folder / "loggers" / f"{name}.runs.json"
        self._target, self._key = target, key
        self._all: dict[str, Any] = {}
        with suppress(OSError, ValueError, RecursionError):
            found = json.loads(self._file.read_bytes())
            self._all = found if isinstance(found, dict) else {}
        known = self._all.get(target)
        self.data: dict[str, Any] = known if isinstance(known, dict) else {}
        if self._is_of_a_copy():
            self.data = {}

    def id(self, new: str) -> str:
        """The id of the run, `new` where it has none yet; kept with the place of the folder."""
        self.save(**{self._key: self.data.get(self._key, new)})
        return str(self.data[self._key])

    def save(self, **more: Any) -> None:
        """Keep what is known, and more of it."""
        self.data |= {PLACE: str(self._folder.absolute()), **more}
        self._all[self._target] = self.data
        self._file.parent.mkdir(exist_ok=True)
        replace_file(self._file, json.dumps(self._all, indent=1).encode() + b"\n")

    def _is_of_a_copy(self) -> bool:
        """Whether another folder has this id, where the record says that its folder is."""
        with suppress(OSError, ValueError, RecursionError, TypeError, KeyError):
            before = Path(self.data[PLACE])
            if not before.samefile(self._folder):
                there = json.loads(read_file(before / "loggers" / self._file.name))
                return bool(there[self._target][self._key] == self.data[self._key])
        return False

    def unsent(self, checkpoints: bool) -> dict[str, Path]:
        """Files and checkpoint folders that were not sent as they are now, by their path in the run."""
        sent = self.data.get("sent", {})
        there = dict(_files(self._folder))
        if checkpoints:
            there |= dict(_checkpoints(self._folder))
        return {name: path for name, path in there.items() if sent.get(name) != _print(path)}

    def note_sent(self, paths: Mapping[str, Path]) -> None:
        """Remember that these went along."""
        prints = {name: _print(path) for name, path in paths.items()}
        self.save(sent={**self.data.get("sent", {}), **prints})


def first_rows(folder: Path, count: int) -> list[Row]:
    """The first `count` rows of the run."""
    found: list[Row] = []
    if count and (folder / METRICS).exists():
        for row, _ in rows_from(folder / METRICS):
            found.append(row)
            if len(found) == count:
                break
    return found


def result_of(folder: Path) -> dict[str, Any]:
    """`result.json`, or nothing where the run has none yet."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads((folder / "result.json").read_bytes())
        if isinstance(found, dict):
            return found
    return {}


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for pattern in FILES:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not path.is_symlink():  # a stranger's link may lead anywhere
                yield path.relative_to(folder).as_posix(), path


def _checkpoints(folder: Path) -> Iterator[tuple[str, Path]]:
    """The folders that `last` and `best` mean: siblings of theirs, or none."""
    home = folder / "checkpoints"
    for name in CHECKPOINTS:
        path = home / (target_of(home / name) or name)
        sibling = path.parent == home and path.name != ".." and not path.is_symlink()
        if sibling and (path / "manifest.json").is_file():
            yield f"checkpoints/{name}", path


def _print(path: Path) -> str:
    """Tells contents apart; a checkpoint's manifest has the checksums of its files."""
    file = path / "manifest.json" if path.is_dir() else path
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _masked(data: Any) -> Any:
    """Plain data with `***` for values of keys named like secrets."""
    if isinstance(data, dict):
        return {k: HIDDEN if is_secret(str(k)) and v else _masked(v) for k, v in data.items()}
    if isinstance(data, list):
        return [_masked(value) for value in data]
    return data
