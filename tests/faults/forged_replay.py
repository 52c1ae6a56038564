"""Forges saved replay folders: changes numbers and moves segments, with checksums and sizes that match.

`Folder.open(path, name)` parses a manifest and its segments (rust/rlox-core/src/store/header.rs has the
format), `forge(folder, rng)` changes a copy, `Folder.write(path)` writes it with the correct checksums.
"""

from __future__ import annotations

import copy
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"rloxseg\0"
BLOCK = 4096
STREAM = 6  # numbers of a stream: start, pushed, head, open, begins, episodes


@dataclass
class Column:
    """Rows with consecutive numbers from `first` on."""

    name: str
    row_bytes: int
    first: int
    data: bytearray

    def __len__(self) -> int:
        return len(self.data) // self.row_bytes

    def row(self, at: int) -> bytes:
        return bytes(self.data[at * self.row_bytes : (at + 1) * self.row_bytes])


@dataclass
class File:
    """A segment or manifest."""

    meta: bytes
    columns: list[Column]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @classmethod
    def parse(cls, data: bytes) -> File:
        assert data[:8] == MAGIC
        version, head, size, count, described = struct.unpack_from("<IIQII", data, 8)
        assert (version, size) == (1, len(data))
        columns, at, offset = [], 32, head
        for _ in range(count):
            name, width, _, first, rows = struct.unpack_from("<IIIQQ", data, at)
            at += 28 + name
            columns.append(Column(data[at - name : at].decode(), width, first, bytearray()))
            columns[-1].data += data[offset : offset + rows * width]
            offset += rows * width
        return cls(data[at : at + described], columns)

    def to_bytes(self) -> tuple[bytes, int]:
        """Return its bytes and its checksum."""
        table, sums = b"", b""
        for c in self.columns:
            block = max(BLOCK // c.row_bytes, 1)
            name = c.name.encode()
            first = c.first % 2**64
            table += struct.pack("<IIIQQ", len(name), c.row_bytes, block, first, len(c)) + name
            size = block * c.row_bytes
            starts = range(0, len(c.data), size)
            sums += b"".join(struct.pack("<I", zlib.crc32(c.data[s : s + size])) for s in starts)
        payload = b"".join(bytes(c.data) for c in self.columns)
        length = 32 + len(table) + len(self.meta) + len(sums) + 4
        head = MAGIC + struct.pack("<IIQ", 1, length, length + len(payload))
        head += struct.pack("<II", len(self.columns), len(self.meta)) + table + self.meta + sums
        checksum = zlib.crc32(head)
        return head + struct.pack("<I", checksum) + payload, checksum


@dataclass
class Folder:
    """A manifest and the segments it lists, oldest first."""

    name: str
    manifest: File
    segments: list[File]

    @classmethod
    def open(cls, path: Path, name: str = "last") -> Folder:
        manifest = File.parse((path / f"{name}.manifest").read_bytes())
        listed = manifest.column("segments")
        numbers = [struct.unpack("<QQQ", listed.row(at))[0] for at in range(len(listed))]
        read = [File.parse((path / f"{number:012}.seg").read_bytes()) for number in numbers]
        return cls(name, manifest, read)

    def write(self, path: Path) -> None:
        path.mkdir()
        listed = self.manifest.column("segments")
        listed.data.clear()
        for number, segment in enumerate(self.segments):
            data, checksum = segment.to_bytes()
            (path / f"{number:012}.seg").write_bytes(data)
            listed.data += struct.pack("<QQQ", number, checksum, len(data))
        (path / f"{self.name}.manifest").write_bytes(self.manifest.to_bytes()[0])


def numbers(column: Column, width: int = 8) -> list[int]:
    """Return its bytes as unsigned numbers."""
    kind = {4: "I", 8: "Q"}[width]
    return list(struct.unpack(f"<{len(column.data) // width}{kind}", column.data))


def put(column: Column, at: int, value: int, width: int = 8) -> None:
    value %= 1 << 8 * width
    column.data[at : at + width] = value.to_bytes(width, "little")


def other_value(rng: random.Random, value: int, width: int = 8) -> int:
    """Return another number: near the value, small, or large."""
    near = value + rng.choice([-9, -3, -2, -1, 1, 2, 3, 9])
    small = rng.randrange(100)
    edge = rng.choice([0, 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64 - 1])
    return rng.choice([near, near, near, small, edge]) % (1 << 8 * width)


def change_number(column: Column, rng: random.Random, width: int = 8) -> None:
    at = width * rng.randrange(max(len(column.data) // width, 1))
    if at + width <= len(column.data):
        old = int.from_bytes(column.data[at : at + width], "little")
        put(column, at, other_value(rng, old, width), width)


# Changes of the manifest.


def change_stream(folder: Folder, rng: random.Random) -> None:
    change_number(folder.manifest.column("streams"), rng)


def change_queue(folder: Folder, rng: random.Random) -> None:
    change_number(folder.manifest.column("queues"), rng)


def change_draws(folder: Folder, rng: random.Random) -> None:
    change_number(folder.manifest.column("draws"), rng)


def change_episode(folder: Folder, rng: random.Random) -> None:
    """Move, remove or add the beginning of an episode; the count of episodes matches."""
    episodes, streams = folder.manifest.column("episodes"), folder.manifest.column("streams")
    change = rng.choice(["change", "remove", "add"])
    counts = numbers(streams)[5::STREAM]
    # An earlier change may have left fewer or more episodes than the streams count.
    if change == "change" or not 0 < len(episodes) <= sum(counts):
        change_number(episodes, rng)
        return
    at = rng.randrange(len(episodes))
    stream, before = 0, 0
    while before + counts[stream] <= at:
        before += counts[stream]
        stream += 1
    if change == "remove":
        del episodes.data[8 * at : 8 * at + 8]
    else:
        episodes.data[8 * at : 8 * at] = other_value(rng, numbers(episodes)[at]).to_bytes(8, "little")
    count = counts[stream] + (1 if change == "add" else -1)
    put(streams, 8 * (STREAM * stream + 5), count)


def change_extra_column(folder: Folder, rng: random.Random) -> None:
    """Change priorities, exponents or moments to another number, or to an invalid one."""
    common_names = ("segments", "streams", "episodes", "queues", "draws")
    extra_columns = [column for column in folder.manifest.columns if column.name not in common_names]
    if not extra_columns:
        return change_draws(folder, rng)
    column = rng.choice(extra_columns)
    if column.row_bytes == 1:
        column.data[:] = bytes([rng.choice([0, 1, 2, 255])])
        return None
    at, another = (8 * rng.randrange(len(column)) for _ in range(2))
    values = [0.0, -0.0, 0.25, 3.0, -1.0, 1e300, float("inf"), float("nan")]
    data = struct.pack("<d", rng.choice(values))
    column.data[at : at + 8] = rng.choice([column.data[another : another + 8], data])
    return None


def cut_manifest(folder: Folder, rng: random.Random) -> None:
    """Shorten a list in the manifest by one entry."""
    column = rng.choice([c for c in folder.manifest.columns if c.name != "segments"])
    del column.data[len(column.data) - column.row_bytes :]


# Changes of rows.


def rows_named(folder: Folder, rng: random.Random, *kinds: str) -> Column | None:
    columns = [
        column
        for segment in folder.segments
        for column in segment.columns
        if column.name.startswith(kinds) and len(column)
    ]
    return rng.choice(columns) if columns else None


def change_obs_number(folder: Folder, rng: random.Random) -> None:
    """Make a record refer to another observation."""
    record = rows_named(folder, rng, "records")
    if record:
        columns = sum(c.name.startswith(("obs", "stacks")) for c in folder.segments[0].columns)
        streams = sum(c.name.startswith("records") for c in folder.segments[0].columns)
        at = rng.randrange(len(record)) * record.row_bytes + 4 * rng.randrange(columns // streams)
        old = int.from_bytes(record.data[at : at + 4], "little")
        put(record, at, other_value(rng, old, 4), 4)


def change_frame_number(folder: Folder, rng: random.Random) -> None:
    """Make a stack refer to another frame."""
    stacks = rows_named(folder, rng, "stacks")
    if stacks:
        change_number(stacks, rng, 4)


def change_row(folder: Folder, rng: random.Random) -> None:
    """Change one byte of a row."""
    column = rows_named(folder, rng, "records", "obs", "frames")
    if column:
        column.data[rng.randrange(len(column.data))] = rng.randrange(256)


# Changes of segments.


def drop_segment(folder: Folder, rng: random.Random) -> None:
    del folder.segments[rng.randrange(len(folder.segments))]


def repeat_segment(folder: Folder, rng: random.Random) -> None:
    copied_segment = copy.deepcopy(rng.choice(folder.segments))
    folder.segments.insert(rng.randrange(len(folder.segments) + 1), copied_segment)


def reorder_segments(folder: Folder, rng: random.Random) -> None:
    rng.shuffle(folder.segments)


def some_column(folder: Folder, rng: random.Random) -> Column:
    return rng.choice(rng.choice(folder.segments).columns)


def shift_rows(folder: Folder, rng: random.Random) -> None:
    """Change the number of a column's first row."""
    column = some_column(folder, rng)
    column.first = other_value(rng, column.first) % 2**64


def cut_rows(folder: Folder, rng: random.Random) -> None:
    """Remove rows of a column, at its end or its beginning."""
    column = some_column(folder, rng)
    n_cut = rng.randint(0, len(column)) * column.row_bytes
    if rng.random() < 0.5:
        column.first += n_cut // column.row_bytes
        del column.data[:n_cut]
    else:
        del column.data[len(column.data) - n_cut :]


def split_segment(folder: Folder, rng: random.Random) -> None:
    """Replace one segment by two that hold the same rows."""
    at = rng.randrange(len(folder.segments))
    later = copy.deepcopy(folder.segments[at])
    for column, rest in zip(folder.segments[at].columns, later.columns, strict=True):
        keep = rng.randint(0, len(column))
        rest.first += keep
        del rest.data[: keep * column.row_bytes], column.data[keep * column.row_bytes :]
    folder.segments.insert(at + 1, later)


CHANGES: tuple[Callable[[Folder, random.Random], None], ...] = (
    change_stream, change_queue, change_draws, change_episode, change_extra_column, cut_manifest,
    change_obs_number, change_frame_number, change_row,
    drop_segment, repeat_segment, reorder_segments, shift_rows, cut_rows, split_segment,
)  # fmt: skip


def forge(folder: Folder, rng: random.Random) -> tuple[Folder, str]:
    """Return a changed copy and the name of the change."""
    forgery, names = copy.deepcopy(folder), []
    for _ in range(rng.choice([1, 1, 1, 2])):
        change = rng.choice(CHANGES)
        if forgery.segments:
            change(forgery, rng)
            names.append(change.__name__)
    return forgery, ", ".join(names)
