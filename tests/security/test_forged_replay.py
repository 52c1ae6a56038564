"""Tests forged replay folders with matching checksums: rlox refuses one, or reads it exactly as `restore`
reads the same state, and never returns a row that the folder does not contain.

One process reads the folders of a kind, with 2 GiB more address space than at its start, so that a signal or
a memory bomb fails the test. Python decodes the meaning of a folder from its bytes
(helpers/replay_decoder.py) for `restore`, which must accept it before results are compared with it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.forged_replay import CHANGES, Folder, forge, put
from faults.report import record
from helpers.memory_disk import memory_disk
from helpers.replay_decoder import Missing, Stream, as_ring, decode, state_of
from helpers.selection import FULL
from helpers.tagged_buffers import FLAT, RINGS, TIERED, Kind, dataset, numbers

import rlox
from rlox.errors import CheckpointError, InternalError, RloxError

MUTANTS = 2_000 if FULL else 40
CASES = RINGS | TIERED | {"dataset": Kind(rlox.ReplayBuffer, numbers, FLAT, (40,), (40,))}


class Wrong(Exception):
    """The buffer returned something that the folder does not contain."""


def require(condition: Any, what: str) -> None:
    if not condition:
        raise Wrong(what)


def equal(one: Any, other: Any, what: str) -> None:
    """Require that two batches are equal bit for bit."""
    require(one.keys() == other.keys(), f"{what}: keys")
    for name, array in one.items():
        if isinstance(array, dict):
            equal(array, other[name], f"{what} {name}")
        else:
            same = np.asarray(array).tobytes() == np.asarray(other[name]).tobytes()
            require(same, f"{what}: {name}")


def check_rows(case: Kind, batch: Any, streams: list[Stream]) -> None:
    """Require that every row of a batch equals the row in the folder, column by column."""
    obs, after = ([b] if not isinstance(b, dict) else [b[k] for k in sorted(b)]
                  for b in (batch["obs"], batch["next_obs"]))  # fmt: skip
    names = ("actions", "rewards", *case.settings.get("extra_columns", ()))
    last = case.settings.get("frame_stack", ("", ""))
    turn = isinstance(last, tuple) and last[1] == "last"
    for at, index in enumerate(batch["indices"].tolist()):
        t, env = divmod(index, len(streams))
        stream = streams[env]
        for column, arrays in enumerate(zip(obs, after, strict=True)):
            for ahead, array in enumerate(arrays):
                row = np.moveaxis(array[at], -1, 0) if turn else array[at]
                require(row.tobytes() == stream.obs(column, t, ahead), f"observation of row {index}")
        written = stream.record(t)[4 * len(obs) :]
        flags = int(batch["terminated"][at]) + 2 * int(batch["truncated"][at])
        require(flags == written[0] & 3, f"flags of row {index}")
        found = b"".join(batch[name][at].tobytes() for name in names)
        require(found == written[1:], f"columns of row {index}")


def make(name: str, path: Path) -> Folder:
    """Make a valid folder with several segments."""
    case = CASES[name]
    if case.tiered:
        buffer = case.make(path)
        case.fill(buffer, 0.0, 0.5)
        buffer.cut_episode(0)
        case.fill(buffer, 0.5, 1.0)
        buffer.close(keep=True)
        return Folder.open(path, "newest")
    if name == "dataset":
        dataset().save(path)
        return Folder.open(path)
    buffer = case.make(path)
    for begin, end in ((0.0, 0.4), (0.4, 0.7), (0.7, 1.0)):
        case.fill(buffer, begin, end)
        if name == "prioritized":
            there = [index for index in case.held_indices()[::3] if index < buffer.n_pushed]
            buffer.update_priorities(there, np.arange(len(there)) / 7)
        buffer.save(path)
    return Folder.open(path)


def opened(name: str, folder: Folder, path: Path) -> Any:
    """Write the folder and open its buffer; it is written each time, since a buffer on disk changes it."""
    case = CASES[name]
    shutil.rmtree(path, ignore_errors=True)
    folder.write(path)
    if case.tiered:
        return case.make(path)
    buffer = dataset(real=False) if name == "dataset" else case.make(path)
    buffer.load(path)
    return buffer


def restored(name: str, folder: Folder, streams: list[Stream]) -> Any:
    """Restore a buffer from the same state; it is in memory also for rows on disk and for a dataset."""
    case = CASES[name]
    if case.tiered:
        each = case.sizes[-1] // case.n_envs
        case = Kind(rlox.ReplayBuffer, case.encode, case.settings, case.sizes[-1:], case.pushed)
        streams = as_ring(streams, each)
    buffer = case.make(Path())
    state = state_of(folder, streams, buffer.state())
    if name == "prioritized":
        own = {name: folder.manifest.column(name).data for name in ("exponents", "tree")}
        state |= {name: np.frombuffer(data, np.uint64) for name, data in own.items()}
    if case.tiered or CASES[name].tiered:
        state["draws"] = np.array([5, 0], np.uint64)  # a reopened buffer draws from its own seed
    buffer.restore(state)
    return buffer


def batches(name: str, buffer: Any) -> list[Any]:
    """Return samples by seed and by the buffer's own draws."""
    if name == "sequence":
        return [buffer.sample(4, 5, 1), buffer.sample(4, 5)]
    if name == "dataset":
        return [buffer.sample(16, 1), buffer.sample(16)]
    return [buffer.sample(16, 1), buffer.sample(16, 1, n_step=4, gamma=0.9), buffer.sample(16)]


def all_rows(buffer: Any, streams: list[Stream]) -> np.ndarray:
    """Return the indices of the rows that a ring holds."""
    rows = [t * len(streams) + env for env, s in enumerate(streams) for t in range(s.start, s.pushed)]
    return np.array(rows, np.uint64)[-len(buffer) :]


def compare(name: str, buffer: Any, folder: Folder, streams: list[Stream], twin: Any) -> int:
    """Return the number of equal rows; raise Wrong if one differs."""
    case = CASES[name]
    require(len(buffer) == len(twin), "length")
    if not len(twin):
        return 0
    pairs = list(zip(batches(name, buffer), batches(name, twin), strict=True))
    for got, expected in pairs:
        equal(got, expected, "sample")
    if name == "dataset":
        check_rows(case, pairs[0][0], streams)
        moments = np.frombuffer(folder.manifest.column("moments").data, np.float64)
        scale = np.where(moments[3:] < 1e-6, 1, moments[3:])
        expected = (np.arange(3.0) - moments[:3]) / scale
        require(np.array_equal(buffer.normalize(np.arange(3.0)), expected), "moments")
        return len(buffer)
    indices = all_rows(twin, as_ring(streams, 60 // case.n_envs) if case.tiered else streams)
    rows = twin.gather(indices)
    check_rows(case, rows, streams)
    equal(buffer.gather(indices), rows, "gather")
    for env, count in enumerate(case.pushed):
        for t in range(count, count + 12):
            case.push(buffer, env, t)
            case.push(twin, env, t)
    for got, expected in zip(batches(name, buffer), batches(name, twin), strict=True):
        equal(got, expected, "sample after more rows")
    check_survivors(case, buffer, streams)
    return len(indices)


def check_survivors(case: Kind, buffer: Any, streams: list[Stream]) -> None:
    """Require that the remaining rows of the folder are unchanged after more pushes."""
    each = case.sizes[-1] // case.n_envs
    rows = [
        t * len(streams) + env
        for env, s in enumerate(streams)
        # the newest row may have waited for a later push
        for t in range(max(s.start, s.pushed + 12 - each), s.pushed - 1)
    ]
    check_rows(case, buffer.gather(np.array(rows, np.uint64)), streams)


def twin_of(name: str, folder: Folder, first: bool) -> Any:
    """Return streams and the restored buffer, or the reason why there is none."""
    try:
        streams = decode(folder, first)
        return streams, restored(name, folder, streams)
    except (Missing, RloxError, IndexError, OverflowError) as error:
        assert not isinstance(error, InternalError), error
        return f"{type(error).__name__}: {error}"


def some_rows(name: str, buffer: Any, folder: Folder) -> int:
    """Read a buffer on disk with missing rows; each row raises an error or equals the folder."""
    case, equal_rows = CASES[name], 0
    streams = decode(folder)
    for index in range(3 * sum(case.pushed)):
        try:
            row = buffer.gather(np.array([index], np.uint64))
        except RloxError as error:
            assert not isinstance(error, InternalError), error
            continue
        try:
            check_rows(case, row, streams)
        except Missing as error:
            raise Wrong(f"row {index}, which is not there: {error}") from None
        equal_rows += 1
    return equal_rows


def outcome(name: str, folder: Folder, path: Path) -> tuple[str, int]:
    """Return how a folder is read, and the number of equal rows; raise Wrong for a wrong result."""
    try:
        opened(name, folder, path)
    except RloxError as error:
        assert not isinstance(error, InternalError), error
        return "refused", 0
    twins = [twin_of(name, folder, first) for first in (False, True)]
    if all(isinstance(twin, str) for twin in twins):
        if not CASES[name].tiered:
            raise Wrong(f"read, though restore says {twins[0]}")
        return "refused row by row", some_rows(name, opened(name, folder, path), folder)
    wrong = []
    for twin in twins:
        try:
            if not isinstance(twin, str):
                return "equal", compare(name, opened(name, folder, path), folder, *twin)
        except (Wrong, Missing, RloxError) as error:
            assert not isinstance(error, InternalError), error
            if CASES[name].tiered and isinstance(error, CheckpointError):
                return "refused row by row", 0
            wrong.append(f"{type(error).__name__}: {error}")
    raise Wrong(wrong[0])


def results(name: str, mutants: int) -> dict[str, Any]:
    found: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(dir=memory_disk()) as place:
        good = make(name, Path(place) / "good")
        for seed in range(-1, mutants):
            rng = random.Random(f"{name} {seed}")
            folder, what = forge(good, rng) if seed >= 0 else (good, "nothing")
            path = Path(place) / "bad"
            try:
                how, rows = outcome(name, folder, path)
                found[how] += 1
                found["rows"] += rows
                if seed < 0:
                    assert (how, rows) == ("equal", len(CASES[name].held_indices())), (how, rows)
                changes.update(what.split(", "))
            except Wrong as error:
                wrong.append(f"seed {seed} ({what}): {error}")
    return {**found, "wrong": wrong, "changes": changes}


@pytest.mark.parametrize("name", CASES)
def test_forged_folders_are_refused_or_read_as_restore_reads_them(name):
    command = [sys.executable, __file__, name, str(MUTANTS)]
    root, tests = Path(rlox.__file__).parents[1], Path(__file__).parents[1]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(tests)])}
    done = subprocess.run(command, env=paths, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2_000:]}"
    counts = json.loads(done.stdout)
    wrong, changes = counts.pop("wrong"), counts.pop("changes")
    assert wrong == [], f"{len(wrong)} of {MUTANTS}"
    refused = counts["refused"] + counts.get("refused row by row", 0)
    assert min(refused, counts["equal"]) > MUTANTS / 8
    if FULL:
        assert changes.keys() == {"nothing", *(change.__name__ for change in CHANGES)}
    record(f"replay folders forged with fitting checksums, {name}", {**counts, "wrong": 0})


@pytest.mark.parametrize("name", ["plain", "stack_first", "prioritized", "sequence"])
def test_a_record_with_a_missing_observation_is_refused(name, tmp_path):
    folder = make(name, tmp_path / "good")
    record = next(c for c in folder.segments[-1].columns if c.name == "records/0")
    put(record, 0, 1_000_000, 4)
    with pytest.raises(CheckpointError, match="observation number"):
        opened(name, folder, tmp_path / "bad")


@pytest.mark.parametrize("name", ["mmap", "mmap_stack"])
def test_a_record_on_disk_with_a_missing_observation_raises(name, tmp_path):
    folder = make(name, tmp_path / "good")
    record = next(c for c in folder.segments[-1].columns if c.name == "records/0")
    put(record, 0, 1_000_000, 4)
    with pytest.raises(CheckpointError):
        opened(name, folder, tmp_path / "bad").gather([record.first * CASES[name].n_envs])


def main() -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), resource.RLIM_INFINITY))
    print(json.dumps(results(sys.argv[1], int(sys.argv[2]))))


if __name__ == "__main__":
    main()
