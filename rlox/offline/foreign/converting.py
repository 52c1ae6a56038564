"""A dataset of any format as a folder of rlox's own."""

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
    """What is known of a file beside what is in it.

    Attributes
    ----------
    env : the environment that it is of, as Gymnasium calls it
    time_limit : steps after which episodes were cut off; ends there are truncations
    """

    env: str | None = None
    time_limit: int | None = None


def convert_dataset(
    path: Path | str, folder: Path | str, options: ConversionOptions | None = None
) -> Dataset:
    """Write what is in `path` to `folder`, row by row; files larger than memory are no trouble."""
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
        with closing(blocks):  # else its process lives as long as an error that refers to it
            return write_dataset(rows, metadata, folder)
    finally:
        if is_new:
            with suppress(OSError):  # something is in it: a dataset, if all went well
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
    """The rows; when they are over `metadata` has what is known of them, where it is still so."""
    yield from rows
    if options.time_limit is not None:  # ends are others now, and with them returns
        for key in ("digest", "returns", "behaviour", "episodes", "terminations", "time_limits"):
            metadata.pop(key, None)
        metadata["time_limit"] = options.time_limit
    if options.env is not None:
        metadata["env"] = options.env
    metadata.setdefault("converted_from", {"format": format_name, "file": path.name})
    require_metadata(metadata, str(path))
