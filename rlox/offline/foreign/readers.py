"""Readers of each format: the file's metadata, and its raw columns block by block."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install_command
from rlox.offline.foreign.formats import NOTE_KEY, ColumnBlock, match_columns
from rlox.offline.foreign.hdf5 import open_hdf5
from rlox.offline.foreign.limits import (
    MAX_TEXT_BYTES,
    DamagedFileError,
    parse_json,
    require_column,
    rows_at_once,
)
from rlox.offline.foreign.minari import read_minari

__all__ = ["READERS", "FileContents"]


class FileContents(NamedTuple):
    """The metadata and the rows of a file."""

    metadata: dict[str, Any]
    blocks: Iterator[ColumnBlock]


def read_d4rl(path: Path) -> FileContents:
    """Read D4RL's HDF5, with columns in the root group (Fu et al. 2020, arXiv:2004.07219)."""
    root = open_hdf5(path)
    if "episode_0" in root:
        raise ConfigError(f"{path} is a file of Minari; give its folder, the one with data/metadata.json")
    names = match_columns(root.names(), str(path))
    columns = {column: root.column(name) for column, name in names.items()}
    note = root.text(NOTE_KEY)
    metadata = {} if note is None else parse_json(note, f"{path}, attribute {NOTE_KEY}")
    return FileContents(metadata, _slice_columns(columns, lambda column, part: column[part]))


def read_npz(path: Path) -> FileContents:
    """Read NumPy's npz: a zip file with one array per member."""
    try:
        archive = zipfile.ZipFile(path)
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
        raise DamagedFileError(f"{path} is no npz: {error}") from error
    if len(members) != len(archive.infolist()):
        raise DamagedFileError(f"{path} has two arrays of the same name")
    metadata: dict[str, Any] = {}
    if NOTE_KEY in members:
        if members[NOTE_KEY].file_size > MAX_TEXT_BYTES:
            raise DamagedFileError(f"{path}: {NOTE_KEY} has {members[NOTE_KEY].file_size:,} bytes")
        with archive.open(members[NOTE_KEY]) as file:
            metadata = parse_json(
                _NpyStream(NOTE_KEY, file, members[NOTE_KEY]).read(None).tobytes(), f"{path}, {NOTE_KEY}"
            )
    names = match_columns(members.keys() - {NOTE_KEY}, str(path))
    return FileContents(metadata, _archive_blocks(archive, {c: members[name] for c, name in names.items()}))


def _archive_blocks(archive: zipfile.ZipFile, members: Mapping[str, Any]) -> Iterator[ColumnBlock]:
    with ExitStack() as stack:
        streams = {
            column: _NpyStream(info.filename, stack.enter_context(archive.open(info)), info)
            for column, info in members.items()
        }
        yield from _slice_columns(streams, lambda stream, part: stream.read(part.stop - part.start))
        for stream in streams.values():
            stream.finish()


class _NpyStream:
    """Sequential reader of an array in a zip file."""

    def __init__(self, name: str, file: Any, info: zipfile.ZipInfo) -> None:
        self._name, self._file = name, file
        try:
            version = np.lib.format.read_magic(file)
            read_header = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                version, np.lib.format.read_array_header_2_0
            )
            self.shape, is_fortran, self.dtype = read_header(file)
        except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
            raise DamagedFileError(f"{name} is no array of NumPy: {error}") from error
        if is_fortran and len(self.shape) > 1:
            raise DamagedFileError(f"{name} is stored by columns (Fortran order), expected C order")
        require_column(name, self.dtype, self.shape, info.compress_size)
        if self.dtype.itemsize * int(np.prod(self.shape)) > info.file_size:
            raise DamagedFileError(f"{name} has {info.file_size:,} bytes, fewer than {self.shape} needs")

    def read(self, rows: int | None) -> Any:
        """Read the next `rows` rows; all rows if `rows` is None."""
        n = self.shape[0] if rows is None else rows
        shape = (n, *self.shape[1:])
        n_bytes = self.dtype.itemsize * int(np.prod(shape))
        try:
            data = self._file.read(n_bytes)
        except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
            raise DamagedFileError(f"{self._name} is damaged: {error}") from error
        if len(data) != n_bytes:
            raise DamagedFileError(f"{self._name} ends before its {self.shape[0]:,} rows")
        return np.frombuffer(data, self.dtype).reshape(shape)

    def finish(self) -> None:
        """Read past the last row, so that the member's checksum is verified; extra bytes are an error."""
        try:
            extra = self._file.read(1)
        except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
            raise DamagedFileError(f"{self._name} is damaged: {error}") from error
        if extra:
            raise DamagedFileError(f"{self._name} has more than its {self.shape[0]:,} rows")


def read_parquet(path: Path) -> FileContents:
    """Read Apache Parquet: vectors are lists of equal length, other columns are numbers."""
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError(
            f"{path} is Parquet, which pyarrow reads: {install_command('datasets')}"
        ) from error
    try:
        file = parquet.ParquetFile(
            path, memory_map=False, page_checksum_verification=True,
            thrift_string_size_limit=MAX_TEXT_BYTES, thrift_container_size_limit=1 << 20,
        )  # fmt: skip
        schema, footer = file.schema_arrow, file.metadata
    except (arrow.ArrowException, OSError, ValueError, KeyError) as error:
        raise DamagedFileError(f"{path} is no Parquet: {error}") from error
    names = match_columns(schema.names, str(path))
    note = (schema.metadata or {}).get(NOTE_KEY.encode())
    metadata = {} if note is None else parse_json(note, f"{path}, metadata {NOTE_KEY}")
    size = path.stat().st_size
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    total = sum(group.total_byte_size for group in groups)
    if total > 1100 * size or footer.num_rows < 0:
        raise DamagedFileError(f"{path} declares {total:,} bytes, and {size:,} are stored")
    if any(group.total_byte_size > 1 << 30 for group in groups):
        raise DamagedFileError(f"{path} has row groups of more than 1 GiB; write it with smaller ones")

    def blocks() -> Iterator[ColumnBlock]:
        row_bytes = max((_row_bytes(group, schema, names.values()) for group in groups), default=1)
        batch_rows = min(rows_at_once(row_bytes), 1 << 16)
        try:
            for batch in file.iter_batches(batch_rows, columns=list(names.values()), use_threads=False):
                yield {c: _arrow_to_numpy(name, batch.column(name)) for c, name in names.items()}
        except (arrow.ArrowException, OSError) as error:
            raise DamagedFileError(f"{path} is damaged: {error}") from error

    return FileContents(metadata, blocks())


def _row_bytes(group: Any, schema: Any, names: Collection[str]) -> int:
    """Return the bytes of a decoded row; the compressed size may be far smaller."""
    import pyarrow as arrow

    total_bytes = 0
    for i in range(group.num_columns):
        column = group.column(i)
        name = column.path_in_schema.split(".")[0]
        if name in names:
            kind = schema.field(name).type
            while arrow.types.is_nested(kind) and kind.num_fields == 1:
                kind = kind.field(0).type
            bits = kind.bit_width if arrow.types.is_primitive(kind) else 64
            total_bytes += column.num_values * max(1, bits // 8)
    return int(total_bytes) // max(1, int(group.num_rows))


def _arrow_to_numpy(name: str, array: Any) -> Any:
    """Convert an Arrow array of numbers, or of lists of equal length, to NumPy."""
    import pyarrow as arrow

    if array.null_count:
        raise DamagedFileError(f"{name} has {array.null_count} rows without a value")
    kind, n = array.type, len(array)
    is_variable_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind)
    if is_variable_list or arrow.types.is_fixed_size_list(kind):
        flat = _arrow_to_numpy(name, array.flatten())
        width = len(flat) // max(1, n)
        if is_variable_list and not np.array_equal(np.diff(np.asarray(array.offsets)), np.full(n, width)):
            raise DamagedFileError(f"{name} has lists of several lengths, expected one")
        return flat.reshape(n, width, *flat.shape[1:])
    if not (arrow.types.is_boolean(kind) or arrow.types.is_integer(kind) or arrow.types.is_floating(kind)):
        raise DamagedFileError(f"{name} is {kind}, expected numbers or lists of them")
    return array.to_numpy(zero_copy_only=False)


def _slice_columns(columns: Mapping[str, Any], read: Callable[[Any, slice], Any]) -> Iterator[ColumnBlock]:
    """Yield blocks of columns, which need a `dtype` and a `shape`."""
    lengths = {name: column.shape[0] for name, column in columns.items()}
    rows = lengths["rewards"]
    mismatched = next((name for name, n in lengths.items() if n != rows), None)
    if mismatched is not None:
        raise DamagedFileError(f"{mismatched} has {lengths[mismatched]:,} rows for {rows:,} rewards")
    row_bytes = sum(c.dtype.itemsize * int(np.prod(c.shape[1:])) for c in columns.values())
    at_once = rows_at_once(row_bytes)
    for start in range(0, rows, at_once):
        rows_slice = slice(start, min(start + at_once, rows))
        yield {name: read(column, rows_slice) for name, column in columns.items()}


READERS: dict[str, Callable[[Path], FileContents]] = {
    "d4rl": read_d4rl,
    "minari": lambda path: FileContents(*read_minari(path)),
    "npz": read_npz,
    "parquet": read_parquet,
}
