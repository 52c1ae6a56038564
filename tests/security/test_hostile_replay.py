"""Tests untrusted replay folders with matching checksums: a typed error or numbers, never a crash.

A separate process reads all folders of a kind, with 2 GiB more address space than at its start, so that a
signal, an abort or a memory bomb fails one test and does not end the test run.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.report import record
from helpers.selection import FULL

import rlox
from rlox.errors import InternalError, RloxError

MUTANTS = 3_000 if FULL else 150
HEAD, COLUMN = 32, 28  # bytes of a file's header before the columns, and of a column without its name
SHAPE: dict[str, Any] = {"obs_shape": (4, 3), "act_dim": 1, "frame_stack": (4, "first")}


def sealed(data: bytes) -> bytes:
    """Return the file with matching checksums, as far as its header is readable."""
    length, _, columns, description = struct.unpack_from("<IQII", data, 12)
    if not HEAD <= length <= len(data) or columns > 64:
        return data
    head, at, blocks = bytearray(data[:length]), HEAD, []
    for _ in range(columns):
        if at + COLUMN > length:
            return data
        name, row, per_block, _, rows = struct.unpack_from("<IIIQQ", head, at)
        at += COLUMN + name
        blocks.append((row * per_block, row * rows))
    at, offset = at + description, length
    for block, size in blocks:
        for start in range(offset, min(offset + size, len(data)), max(block, 1)):
            if at + 8 > length:
                break
            end = min(start + block, offset + size)
            struct.pack_into("<I", head, at, zlib.crc32(data[start:end]))
            at += 4
        offset += size
    struct.pack_into("<I", head, length - 4, zlib.crc32(head[:-4]))
    return bytes(head) + data[length:]


def forge(folder: Path, rng: random.Random) -> None:
    """Change some bytes of a file and update its checksums."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".seg", ".manifest"))
    path = rng.choice(files)
    old = path.read_bytes()
    data = bytearray(old)
    reach = min(len(data), 400) if rng.random() < 0.7 else len(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(12, reach)
        width = rng.choice([1, 1, 4, 8])
        value = rng.choice([0, 1, 255, rng.getrandbits(8 * width), 2 ** (8 * width) - 1])
        data[at : at + width] = (value % 2 ** (8 * width)).to_bytes(width, "little")
    new = sealed(bytes(data))
    path.write_bytes(new)
    head = struct.unpack_from("<I", new, 12)[0]
    if path.suffix == ".seg" and 4 <= head <= len(new):
        vouch(folder, old[struct.unpack_from("<I", old, 12)[0] - 4 :][:4], new[head - 4 : head])


def vouch(folder: Path, before: bytes, after: bytes) -> None:
    """Replace a segment's checksum in every manifest."""
    for manifest in folder.glob("*.manifest"):
        data = manifest.read_bytes()
        manifest.write_bytes(sealed(data.replace(before + bytes(4), after + bytes(4))))


def fill(buffer: Any, rows: int = 60) -> None:
    frames = np.random.default_rng(0).normal(size=(rows + 4, 3)).astype(np.float32)
    for t in range(rows):
        now, after = frames[t : t + 4], frames[t + 1 : t + 5]
        buffer.push(now, 0.5, float(t), t % 9 == 8, False, after)


def make(kind: str, folder: Path) -> None:
    if kind == "mmap":
        buffer = rlox.MmapReplayBuffer(6, 60, cold_path=folder, **SHAPE)
        fill(buffer)
        buffer.close(keep=True)
    elif kind == "prioritized":
        prioritized = rlox.PrioritizedReplayBuffer(60, **SHAPE)
        fill(prioritized)
        prioritized.save(folder)
    else:
        ring = rlox.ReplayBuffer(60, **SHAPE)
        fill(ring)
        ring.save(folder)


def read(kind: str, folder: Path) -> None:
    """Do everything that a user does with the folder."""
    if kind == "mmap":
        buffer: Any = rlox.MmapReplayBuffer(6, 60, cold_path=folder, **SHAPE)
        buffer.verify()
    else:
        make_one = rlox.PrioritizedReplayBuffer if kind == "prioritized" else rlox.ReplayBuffer
        buffer = make_one(60, **SHAPE)
        buffer.load(folder)
    buffer.sample(32, seed=1)
    buffer.sample(32, seed=1, n_step=3, gamma=0.9)
    fill(buffer, 70)


def outcomes(kind: str, mutants: int) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as place:
        good = Path(place) / "good"
        make(kind, good)
        for seed in range(mutants):
            folder = Path(place) / "bad"
            shutil.copytree(good, folder)
            forge(folder, random.Random(seed))
            try:
                read(kind, folder)
                yield "read"
            except RloxError as error:
                assert not isinstance(error, InternalError), (seed, error)
                yield "refused"
            shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["ring", "prioritized", "mmap"])
def test_forged_replay_folders_are_refused_or_read_as_numbers(kind):
    command = [sys.executable, __file__, kind, str(MUTANTS)]
    paths = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, env=paths, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2_000:]}"
    refused, numbers = map(int, done.stdout.split())
    assert refused + numbers == MUTANTS
    assert refused > MUTANTS / 4  # else nothing was changed
    record(f"forged replay folders, {kind}", {"refused": refused, "read": numbers})


def main() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), resource.RLIM_INFINITY))
    counts = Counter(outcomes(sys.argv[1], int(sys.argv[2])))
    print(counts["refused"], counts["read"])


if __name__ == "__main__":
    main()
