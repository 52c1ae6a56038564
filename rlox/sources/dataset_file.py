"""Datasets on disk: a folder of `dataset.safetensors` and `dataset.json`, without pickle.

Each column has one row per transition, in time order, episode after episode. `obs` and `next_obs` are `[n,
obs_dim]` float32, or uint8 if they contain images, as policies see them before any normaliser. `actions` are
`[n]` int64 (choices from 0) or `[n, act_dim]` float32; actions of several parts have choices first, then
numbers, and are int64 if all are choices (docs/actions.md). `rewards` are `[n]` float32, `terminated` and
`truncated` `[n]` bool. `dataset.json`, the document, says where the columns come from and has their digest.
New files go to a temporary folder and replace the old ones when they are complete.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import OfflineDatasetBuffer
from rlox.disk import Disk
from rlox.errors import CheckpointError, ConfigError, ShapeError, StorageError
from rlox.sources.dataset_on_disk import WIDE_COLUMNS, DatasetOnDisk
from rlox.sources.file_columns import Column, FileColumn, iter_blocks, read_file_columns

__all__ = [
    "COLUMNS",
    "DATA_FILE",
    "DOCUMENT_FILE",
    "Dataset",
    "columns_of",
    "digest_of",
    "other_files",
    "read_dataset",
    "read_document",
    "replace_dataset",
]

DATA_FILE, DOCUMENT_FILE = "dataset.safetensors", "dataset.json"
FORMAT = 1
BYTES_PER_DRAW = 1 << 26  # most bytes of one draw in `columns_of`; a row with images has tens of thousands
COLUMNS = {
    "obs": "float32 or uint8",
    "next_obs": "float32 or uint8",
    "actions": "int64 or float32",
    "rewards": "float32",
    "terminated": "bool",
    "truncated": "bool",
}
# Entries of a document that must be text, if present. `format`, `digest` and `scores` are checked separately;
# rlox only displays all other entries, so they may have any type.
TEXT_KEYS = (
    "env", "algo", "quality", "checkpoint", "spec", "observation_space", "action_space",
)  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    """Columns, their origin and their digest."""

    columns: Mapping[str, Any]  # arrays, or `FileColumn`s of a dataset that stays on disk
    about: Mapping[str, Any]
    digest: str

    def buffer(self, seed: int = 0) -> OfflineDatasetBuffer | DatasetOnDisk:
        """Return a buffer to sample from; columns on disk are read when they are sampled."""
        if isinstance(self.columns["obs"], FileColumn):
            return DatasetOnDisk(self.columns, seed)
        columns: dict[str, Any] = dict(self.columns)
        return OfflineDatasetBuffer(**columns, seed=seed)


def read_dataset(folder: Path, max_bytes: float = math.inf) -> Dataset:
    """Read and check a dataset; errors name the file, the column and the expected form.

    If the dataset has more than `max_bytes`, observations and actions stay in their file.
    """
    about, path = read_document(folder), folder / DATA_FILE
    file_column_map = read_file_columns(path)
    require_columns(file_column_map, str(path))
    is_in_memory = sum(column.nbytes for column in file_column_map.values()) <= max_bytes
    columns: dict[str, Any] = {
        name: column[:] if is_in_memory or name not in WIDE_COLUMNS else column
        for name, column in file_column_map.items()
    }
    if digest_of(columns) != (digest := about["digest"]):
        raise CheckpointError(f"{path} is damaged: its digest differs from that in {DOCUMENT_FILE}")
    return Dataset(columns, about, digest)


def read_document(folder: Path) -> dict[str, Any]:
    """Read the document of a dataset without reading its rows."""
    if not folder.exists():
        raise ConfigError(f"{folder} is not there, expected the folder of a dataset")
    if not (folder / DATA_FILE).is_file() or not (folder / DOCUMENT_FILE).is_file():
        raise ConfigError(
            f"{folder}: expected the folder of a dataset, with {DATA_FILE} and {DOCUMENT_FILE}; rlox "
            "dataset make writes such a folder, and rlox dataset convert makes one from a file"
        )
    try:
        about: dict[str, Any] = json.loads((folder / DOCUMENT_FILE).read_bytes())
        version, _ = about["format"], about["digest"]
    except (OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{folder} is not a dataset: {error}") from error
    if version != FORMAT:
        raise CheckpointError(f"{folder} has format {version}, expected {FORMAT}")
    require_metadata(about, str(folder / DOCUMENT_FILE))
    return about


def require_metadata(metadata: Mapping[str, Any], label: str) -> None:
    """Raise `CheckpointError` unless the document's entries have the types that rlox writes."""
    for key in TEXT_KEYS:
        if metadata.get(key) is not None and not _is_text(metadata[key]):
            raise CheckpointError(f"{label}: {key} is {_short_repr(metadata[key])}, expected text")
    scores = {} if metadata.get("scores") is None else metadata["scores"]
    if not isinstance(scores, Mapping) or not all(
        _is_text(name) and _is_score(score) for name, score in scores.items()
    ):
        raise CheckpointError(f"{label}: scores is {_short_repr(scores)}, expected a number for each name")


def _is_text(value: Any) -> bool:
    """Whether this is printable text: JSON allows lone surrogates, UTF-8 does not."""
    return isinstance(value, str) and value == value.encode(errors="ignore").decode()


def _is_score(value: Any) -> bool:
    """Whether this is None or a number that fits a float."""
    is_integer = isinstance(value, int) and value.bit_length() < sys.float_info.max_exp
    return is_integer or isinstance(value, float | None)


def _short_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def require_columns(columns: Mapping[str, Column], label: str) -> None:
    """Raise `ShapeError` unless these are the columns of a dataset."""
    if set(columns) != set(COLUMNS):
        unexpected_column = sorted(set(columns) ^ set(COLUMNS))[0]
        raise ShapeError(
            f"{label}: columns {', '.join(COLUMNS)} are expected; '{unexpected_column}' is missing or unknown"
        )
    for name, column in columns.items():
        if not column.ndim or 0 in column.shape[1:]:
            raise ShapeError(f"{label}: {name} has shape {column.shape}, expected rows of numbers")
    rows = len(columns["rewards"])
    if not rows:
        raise ShapeError(f"{label} has no rows, expected one at least")
    for name, dtypes in COLUMNS.items():
        column = columns[name]
        if str(column.dtype) not in dtypes.split(" or "):
            raise ShapeError(f"{label}: {name} is {column.dtype}, expected {dtypes}")
        is_single = name in ("rewards", "terminated", "truncated")
        is_wrong_shape = (name.endswith("obs") and column.ndim != 2) or (is_single and column.ndim != 1)
        if len(column) != rows or is_wrong_shape:
            raise ShapeError(f"{label}: {name} has shape {column.shape} beside {rows} rewards")
    for attribute in ("shape", "dtype"):
        actual, expected = (getattr(columns[name], attribute) for name in ("next_obs", "obs"))
        if actual != expected:
            raise ShapeError(f"{label}: next_obs has {attribute} {actual}, expected that of obs, {expected}")


def columns_of(dataset: OfflineDatasetBuffer) -> dict[str, NDArray[Any]]:
    """Return the columns of a dataset in memory, with its moments if it standardises observations.

    A dataset can only be sampled, so rows are drawn until each has been seen: about n (ln n + 1) rows for a
    dataset of n. The result does not depend on the draws.
    """
    n, draw, batch = len(dataset), 0, dataset.sample(1, 0)
    size = max(1, min(4 * n, BYTES_PER_DRAW // sum(column.nbytes for column in batch.values())))
    columns = {
        name: np.empty((n, *column.shape[1:]), column.dtype)
        for name, column in batch.items()
        if name != "indices"
    }
    is_unseen, batch = np.ones(n, bool), dataset.sample(size, draw)
    while is_unseen.any():
        new_positions = np.flatnonzero(is_unseen[batch["indices"]])
        rows = batch["indices"][new_positions]
        for name, column in columns.items():
            column[rows] = batch[name][new_positions]
        is_unseen[rows] = False
        draw += 1
        batch = dataset.sample(size, draw, out=batch)
    stats = dataset.stats() if dataset.normalized else {}
    return columns | {name: stats[name] for name in ("obs_mean", "obs_std") if name in stats}


def digest_of(columns: Mapping[str, Column]) -> str:
    """Return the BLAKE2b digest of names, types, shapes and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(columns):
        column = columns[name]
        digest.update(f"{name} {column.dtype} {column.shape}\n".encode())
        for _, (rows,) in iter_blocks(column):
            digest.update(np.ascontiguousarray(rows).data)
    return digest.hexdigest()


PARTIAL_PREFIX = ".parts-"  # of a temporary folder's name; a killed process leaves the folder behind


def other_files(folder: Path) -> set[str]:
    """Return the names in `folder` besides a dataset's files and leftovers of an unfinished write."""
    names = {path.name for path in folder.iterdir()} - {DATA_FILE, DOCUMENT_FILE}
    return {name for name in names if not name.startswith(PARTIAL_PREFIX)}


@contextmanager
def replace_dataset(folder: Path) -> Iterator[Path]:
    """Yield a folder for both files of a dataset; the block must sync them to disk.

    After the block the new files replace those in `folder`. If the block fails, the old dataset stays
    unchanged. The document is removed first and written last, so an interrupted replacement never looks
    complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{PARTIAL_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=PARTIAL_PREFIX, ignore_cleanup_errors=True) as new:
        yield Path(new)
        try:
            (folder / DOCUMENT_FILE).unlink(missing_ok=True)
            for name in (DATA_FILE, DOCUMENT_FILE):
                (Path(new) / name).replace(folder / name)
            Disk().sync_folder(folder)
        except OSError as error:
            raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
