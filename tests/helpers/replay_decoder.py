"""Decodes the rows of a saved folder in Python, from its parsed files alone.

Rows are records that refer to their observations by number; stacks refer to their frames. A number is stored
modulo 2**32 and means the nearest one before the end of its queue. If two segments have a row, the later one
counts. Only a forgery has contradicting observations, and then either is acceptable (`first`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from faults.forged_replay import STREAM, Folder, numbers


class Missing(Exception):
    """The folder lacks something to which it refers."""


@dataclass
class Queue:
    """Numbered rows of one source."""

    width: int
    rows: dict[int, bytes] = field(default_factory=dict)
    start: int = 0
    end: int = 0

    def full(self, lower: int) -> int:
        """Return the full number from its lower half."""
        return self.end - (self.end - lower) % 2**32

    def get(self, number: int) -> bytes:
        if number not in self.rows or number >= self.end:
            raise Missing(f"row {number} before {self.end}")
        return self.rows[number]


@dataclass
class Stream:
    """The state of an environment's stream, and its rows."""

    start: int
    pushed: int
    head: int
    is_open: bool
    begins_episode: bool
    episodes: list[int]
    records: Queue
    items: list[Queue]
    frames: list[Queue | None]

    def record(self, position: int) -> bytes:
        if position not in self.records.rows:
            raise Missing(f"record {position}")
        return self.records.rows[position]

    def obs(self, column: int, position: int, ahead: int) -> bytes:
        """Return the bytes of an observation; for a stack, frame after frame."""
        items, frames = self.items[column], self.frames[column]
        lower = int.from_bytes(self.record(position)[4 * column : 4 * column + 4], "little")
        number = items.full(lower)
        items.get(number)
        item = items.get(min(number + ahead, items.end - 1))
        if frames is None:
            return item
        return b"".join(frames.get(frames.full(int(n))) for n in np.frombuffer(item, "<u4"))


def decode(folder: Folder, first: bool = False) -> list[Stream]:
    """Return the streams of a folder; raise Missing if its manifest is inconsistent."""
    manifest = folder.manifest
    states, episodes, ends = (numbers(manifest.column(c)) for c in ("streams", "episodes", "queues"))
    sources: dict[str, Queue] = {}
    for segment in folder.segments:
        for column in segment.columns:
            queue = sources.setdefault(column.name, Queue(column.row_bytes))
            rows = {column.first + at: column.row(at) for at in range(len(column))}
            older = first and not column.name.startswith("records")
            queue.rows = rows | queue.rows if older else queue.rows | rows
    if len(ends) != 2 * len(sources):
        raise Missing("ranges of queues")
    names = iter(sources.values())
    for queue, start, end in zip(names, ends[::2], ends[1::2], strict=True):
        queue.start, queue.end = start, end
    streams, n_used = [], 0
    for at in range(sum(name.startswith("records") for name in sources)):
        state = states[STREAM * at : STREAM * at + STREAM]
        if len(state) < STREAM:
            raise Missing("streams")
        own_sources = [s for s in sources if s.endswith(f"/{at}") and s.startswith(("obs", "stacks"))]
        frames = [sources.get(name.replace("stacks", "frames")) for name in own_sources]
        plain = [None if "stacks" not in name else f for name, f in zip(own_sources, frames, strict=True)]
        begin, n_used = n_used, n_used + state[5]
        streams.append(
            Stream(
                state[0], state[1], state[2], bool(state[3]), bool(state[4]), episodes[begin:n_used],
                sources[f"records/{at}"], [sources[name] for name in own_sources], plain,
            )
        )  # fmt: skip
    return streams


def concatenated(parts: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(parts), np.uint8).copy()


def state_of(folder: Folder, streams: list[Stream], empty: dict[str, Any]) -> dict[str, Any]:
    """Return the state dict of a ring with the folder's contents; raise Missing if something is not there."""
    draws = numbers(folder.manifest.column("draws"))
    if len(draws) != 2:
        raise Missing("draws")
    if any(s.pushed - s.start > 1 << 20 for s in streams):
        raise Missing("more rows than any folder here has")
    stream_states = [
        [s.start, s.pushed, s.head, int(s.is_open), int(s.begins_episode), len(s.episodes)] for s in streams
    ]
    ranges, rows = [], {}
    for env, s in enumerate(streams):
        rows[f"records/{env}"] = concatenated([s.record(t) for t in range(s.start, s.pushed)])
        ranges += [s.start, s.pushed]
        for column, (items, frames) in enumerate(zip(s.items, s.frames, strict=True)):
            queues = {"stacks": items, "frames": frames} if frames else {"obs": items}
            for kind, queue in queues.items():
                if queue.end - queue.start > 1 << 20:
                    raise Missing("more observations than any folder here has")
                queue_rows = [queue.get(number) for number in range(queue.start, queue.end)]
                rows[f"{kind}{column}/{env}"] = concatenated(queue_rows)
                ranges += [queue.start, queue.end]
    wide = {
        "streams": [number for state in stream_states for number in state],
        "episodes": [e for s in streams for e in s.episodes],
        "queues": ranges,
        "draws": draws,
    }
    return empty | {name: np.array(all, np.uint64) for name, all in wide.items()} | rows


def as_ring(streams: list[Stream], rows_per_env: int) -> list[Stream]:
    """Return the streams of a disk buffer as a ring of `rows_per_env` rows would have them.

    A ring reads a row only when it needs it, so an unused row may be missing and is then replaced by zeros.
    """
    return [ring_of(stream, rows_per_env) for stream in streams]


def ring_of(s: Stream, rows_per_env: int) -> Stream:
    start = max(s.start, s.pushed - rows_per_env)
    if not 0 <= s.pushed - start <= rows_per_env:
        raise Missing("rows held")
    flags = {t: s.record(t)[4 * len(s.items)] & 3 for t in range(start, s.pushed)}
    ends = {t + 1 for t, flag in flags.items() if flag and t + 1 < s.pushed}
    cuts = {e for e in s.episodes if start < e < s.pushed}
    begins = s.begins_episode or bool(flags.get(s.pushed - 1, 0))
    episodes = sorted({start, *ends, *cuts}) if flags else []
    items: list[Queue] = []
    frames: list[Queue | None] = []
    for column, (queue, frame_queue) in enumerate(zip(s.items, s.frames, strict=True)):
        lowers = [s.record(t)[4 * column : 4 * column + 4] for t in flags]
        needed = {queue.full(int.from_bytes(lower, "little")) for lower in lowers}
        needed |= {min(number + 1, queue.end - 1) for number in needed}
        rows = {number: queue.get(number) for number in needed}
        begin = min(needed, default=queue.end)
        if queue.end - begin > 1 << 20:
            raise Missing("observations far apart")
        blank = bytes(queue.width)
        ring_rows = {n: rows.get(n) or queue.rows.get(n, blank) for n in range(begin, queue.end)}
        items.append(Queue(queue.width, ring_rows, begin, queue.end))
        if frame_queue is None:
            frames.append(None)
            continue
        used_frames = {
            frame_queue.full(int(i)) for row in ring_rows.values() for i in np.frombuffer(row, "<u4")
        }
        first = min(used_frames, default=frame_queue.end)
        if frame_queue.end - first > 1 << 20:
            raise Missing("frames far apart")
        frame_rows = {
            n: frame_queue.rows.get(n, bytes(frame_queue.width)) for n in range(first, frame_queue.end)
        }
        frames.append(Queue(frame_queue.width, frame_rows, first, frame_queue.end))
    head = s.pushed % rows_per_env
    return Stream(start, s.pushed, head, s.is_open, begins, episodes, s.records, items, frames)
