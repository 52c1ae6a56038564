"""Block-wise writing of a dataset, without holding all rows in memory."""

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
from rlox.offline.foreign.formats import ColumnBlock
from rlox.sources.dataset_file import (
    COLUMNS,
    DATA_FILE,
    DOCUMENT_FILE,
    FORMAT,
    Dataset,
    digest_of,
    read_dataset,
    replace_dataset,
    require_columns,
)
from rlox.sources.file_columns import FileColumn, OpenFile, iter_blocks

__all__ = ["write_dataset"]

# The names that safetensors gives NumPy's types.
SAFETENSORS_TYPES = {"int64": "I64", "float32": "F32", "uint8": "U8", "bool": "BOOL"}


def write_dataset(blocks: Iterable[ColumnBlock], metadata: Mapping[str, Any], folder: Path) -> Dataset:
    """Write `folder` and open it as a dataset without loading rows; on failure the old folder stays.

    `metadata` is read after the last block, so whatever yields the blocks may fill it. If it has a
    `digest`, the rows have to match it.
    """
    with replace_dataset(folder) as scratch:
        columns = _spool_columns(blocks, scratch)
        require_columns(columns, str(folder))
        digest = digest_of(columns)
        if metadata.get("digest") not in (None, digest):
            raise CheckpointError(
                f"the rows have digest {digest}, their metadata {metadata['digest']}: the file was damaged "
                "or changed since rlox wrote it; if that is intended, remove the entry 'rlox' from the "
                "file's metadata"
            )
        _write_safetensors(columns, scratch / DATA_FILE)
        rows = len(columns["rewards"])
        document = {**metadata, "format": FORMAT, "transitions": rows, "digest": digest}
        replace_file(scratch / DOCUMENT_FILE, json.dumps(document, indent=1).encode())
    return read_dataset(folder, max_bytes=0)


def _spool_columns(blocks: Iterable[ColumnBlock], scratch: Path) -> dict[str, FileColumn]:
    """Write each column to a separate file."""
    column_types: dict[str, tuple[Any, tuple[int, ...]]] = {}
    rows = 0
    with ExitStack() as stack:
        files = {name: stack.enter_context((scratch / name).open("wb")) for name in COLUMNS}
        for block in blocks:
            block_types = {name: (block[name].dtype, block[name].shape[1:]) for name in COLUMNS}
            column_types = column_types or block_types
            if block_types != column_types:
                mismatched = next(name for name in COLUMNS if block_types[name] != column_types[name])
                raise ShapeError(
                    f"{mismatched} is {block_types[mismatched]} from row {rows} on, "
                    f"{column_types[mismatched]} "
                    "before"
                )
            _require_disk(scratch, sum(column.nbytes for column in block.values()))
            for name, file in files.items():
                file.write(np.ascontiguousarray(block[name]).data)
            rows += len(block["rewards"])
    if not rows:
        raise ShapeError("no transitions were read, expected one at least")
    return {
        name: FileColumn(OpenFile(scratch / name), 0, dtype, (rows, *shape))
        for name, (dtype, shape) in column_types.items()
    }


def _require_disk(folder: Path, required_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if required_bytes > free:
        raise StorageError(
            f"{folder.parent} has {free:,} bytes left, but the next rows need {required_bytes:,}"
        )


def _write_safetensors(columns: Mapping[str, FileColumn], path: Path) -> None:
    """Write the columns as one safetensors file, synced to disk."""
    # largest items first, as safetensors' own writer orders tensors
    order = sorted(columns, key=lambda name: (-columns[name].dtype.itemsize, name))
    header, offset = dict[str, Any](), 0
    for name in order:
        column = columns[name]
        end = offset + column.nbytes
        kind = SAFETENSORS_TYPES[str(column.dtype)]
        header[name] = {"dtype": kind, "shape": list(column.shape), "data_offsets": [offset, end]}
        offset = end
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)
    _require_disk(path.parent, len(header_bytes) + offset)
    with path.open("wb") as file:
        file.write(len(header_bytes).to_bytes(8, "little") + header_bytes)
        for name in order:
            for _, (block,) in iter_blocks(columns[name]):
                file.write(block.data)
        file.flush()
        os.fsync(file.fileno())
