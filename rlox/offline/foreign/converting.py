"""Conversion of a dataset in any format to an rlox dataset folder."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlox.offline.foreign.dataset_writer import write_dataset
from rlox.offline.foreign.formats import ColumnBlock, detect_format
from rlox.offline.foreign.reader_client import read_in_subprocess
from rlox.offline.foreign.transitions import to_transitions
from rlox.sources.dataset_file import COLUMNS, Dataset, read_dataset, require_metadata
from rlox.sources.file_columns import iter_blocks

__all__ = ["ConversionOptions", "convert_dataset"]


@dataclass(frozen=True)
class ConversionOptions:
    """Facts about a dataset that its file does not contain.

    Attributes
    ----------
    env : Gymnasium id of the environment
    time_limit : steps after which episodes were cut off; ends at that length are truncations
    """

    env: str | None = None
    time_limit: int | None = None


def convert_dataset(
    path: Path | str, folder: Path | str, options: ConversionOptions | None = None
) -> Dataset:
    """Convert the dataset in `path` to `folder`, block by block; files may be larger than memory."""
    path, folder, options = Path(path), Path(folder), options or ConversionOptions()
    is_new = not folder.exists()
    format_name, metadata = detect_format(path), dict[str, Any]()
    blocks = (
        _read_own(path, metadata)
        if format_name == "rlox"
        else read_in_subprocess(format_name, path, metadata)
    )
    rows = _with_metadata(
        to_transitions(blocks, str(path), options.time_limit, metadata), metadata, path, format_name, options
    )
    try:
        with closing(blocks):  # else an error's traceback would keep the reader process alive
            return write_dataset(rows, metadata, folder)
    finally:
        if is_new:
            with suppress(OSError):  # fails if the folder has contents: the dataset, after success
                folder.rmdir()


def _read_own(path: Path, metadata: dict[str, Any]) -> Generator[ColumnBlock]:
    dataset = read_dataset(path, max_bytes=0)
    metadata.update(dataset.about, digest=dataset.digest)
    columns = dataset.columns
    for _, rows in iter_blocks(*(columns[name] for name in COLUMNS)):
        yield dict(zip(COLUMNS, rows, strict=True))


def _with_metadata(
    rows: Iterator[ColumnBlock],
    metadata: dict[str, Any],
    path: Path,
    format_name: str,
    options: ConversionOptions,
) -> Iterator[ColumnBlock]:
    """Yield the rows, then update `metadata`; entries that a new `time_limit` invalidates are removed."""
    yield from rows
    if options.time_limit is not None:  # the limit changes where episodes end, and so their returns
        for key in ("digest", "returns", "behaviour", "episodes", "terminations", "time_limits"):
            metadata.pop(key, None)
        metadata["time_limit"] = options.time_limit
    if options.env is not None:
        metadata["env"] = options.env
    metadata.setdefault("converted_from", {"format": format_name, "file": path.name})
    require_metadata(metadata, str(path))
