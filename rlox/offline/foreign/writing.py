"""A dataset that is written block by block, its rows never all in memory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from rlox.disk import replace_file
from rlox.errors import CheckpointError, ShapeError, StorageError
from rlox.offline.foreign.kinds import Raw
from rlox.sources.dataset_file import (
    COLUMNS,
    DATA,
    DOCUMENT,
    FORMAT,
    Dataset,
    digest_of,
    read_dataset,
    require_columns,
)
from rlox.sources.dataset_folder import renewed
from rlox.sources.file_columns import FileColumn, OpenFile

__all__ = ["written"]

# Of safetensors, largest first, as its own writer orders them.
TYPES = {"int64": "I64", "float32": "F32", "uint8": "U8", "bool": "BOOL"}


def written(blocks: Iterable[Raw], about: Mapping[str, Any], folder: Path) -> Dataset:
    """Write `folder`, and read it again without its rows; where that fails what was there stays.

    `about` is read when all rows are there. What it says is the rows' digest has to be it.
    """
    with renewed(folder) as new:
        columns = _spooled(blocks, new)
        require_columns(columns, str(folder))
        digest = digest_of(columns)
        if about.get("digest") not in (None, digest):
            raise CheckpointError(
                f"the rows have digest {digest}, {about['digest']} is written beside them: the file was "
                "damaged or changed since rlox wrote it; if that is meant, take 'rlox' out of its metadata"
            )
        _joined(columns, new / DATA)
        rows = len(columns["rewards"])
        document = {**about, "format": FORMAT, "transitions": rows, "digest": digest}
        replace_file(new / DOCUMENT, json.dumps(document, indent=1).encode())
    return read_dataset(folder, most=0)


def _spooled(blocks: Iterable[Raw], scratch: Path) -> dict[str, FileColumn]:
    """Each column in a file of its own."""
    kinds: dict[str, tuple[Any, tuple[int, ...]]] = {}
    rows = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context((scratch / name).open("wb")) for name in COLUMNS}
        for block in blocks:
            these = {name: (block[name].dtype, block[name].shape[1:]) for name in COLUMNS}
            kinds = kinds or these
            if these != kinds:
                odd = next(name for name in COLUMNS if these[name] != kinds[name])
                raise ShapeError(f"{odd} is {these[odd]} from row {rows} on, {kinds[odd]} before")
            _require_room(scratch, sum(column.nbytes for column in block.values()))
            for name, file in files.items():
                file.write(np.ascontiguousarray(block[name]).data)
            rows += len(block["rewards"])
    if not rows:
        raise ShapeError("no transitions were read, expected one at least")
    return {
        name: FileColumn(OpenFile(scratch / name), 0, dtype, (rows, *shape))
        for name, (dtype, shape) in kinds.items()
    }


def _require_room(folder: Path, need: int) -> None:
    free = shutil.disk_usage(folder).free
    if need > free:
        raise StorageError(f"{folder.parent} has {free:,} bytes left, the next rows need {need:,}")


def _joined(columns: Mapping[str, FileColumn], path: Path) -> None:
    """The columns as one file of safetensors, forced to the device."""
    order = sorted(columns, key=lambda name: (-columns[name].dtype.itemsize, name))
    header, at = dict[str, Any](), 0
    for name in order:
        column = columns[name]
        end = at + column.nbytes
        kind = TYPES[str(column.dtype)]
        header[name] = {"dtype": kind, "shape": list(column.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    _require_room(path.parent, len(text) + at)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            row = max(1, columns[name].nbytes // max(1, len(columns[name])))
            for first in range(0, len(columns[name]), max(1, (8 << 20) // row)):
                part = slice(first, first + max(1, (8 << 20) // row))
                file.write(columns[name][part].data)
        file.flush()
        os.fsync(file.fileno())
