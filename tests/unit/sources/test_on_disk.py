"""Tests that a dataset on disk gives the same results as one in memory, bit for bit."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlox.algorithms import BC, IQL, DecisionTransformer
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, ShapeError
from rlox.runs.record import make_dataset, write_dataset
from rlox.sources import file_columns as module
from rlox.sources.dataset_file import DATA_FILE, read_dataset
from rlox.sources.dataset_on_disk import DatasetOnDisk
from rlox.sources.file_columns import FileColumn, iter_blocks

KINDS: dict[str, tuple[Any, Any]] = {
    "vectors": ((3,), (2,)),
    "one number": ((1,), (1,)),
    "choices": ((5,), ()),
    "bytes": ((12,), ()),
}
N = 300


def columns(kind: str) -> dict[str, Any]:
    """Makes episodes of 40 steps; every second one terminates, and the last one goes on."""
    rng = np.random.default_rng(len(kind))
    obs, action = KINDS[kind]
    after = rng.normal(3.0, 2.0, (N, *obs)) * 10
    after = after.astype(np.uint8 if kind == "bytes" else np.float32)
    before = np.concatenate([after[:1], after[:-1]])
    step = np.arange(N) % 80
    return {
        "obs": before,
        "next_obs": after,
        "actions": rng.integers(0, 4, N) if not action else rng.normal(size=(N, *action)).astype("f4"),
        "rewards": rng.normal(size=N).astype(np.float32),
        "terminated": step == 39,
        "truncated": step == 79,
    }


def both(kind: str, folder: Path) -> tuple[Any, DatasetOnDisk]:
    write_dataset(make_dataset(columns(kind), {}), folder)
    on_disk = read_dataset(folder, max_bytes=100).buffer(7)
    assert isinstance(on_disk, DatasetOnDisk)
    return read_dataset(folder).buffer(7), on_disk


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], strict=True, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_stretches_and_moments_are_those_of_the_rows_in_memory(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BYTES_PER_READ", 500)  # moments over many blocks
    memory, disk = both(kind, tmp_path)
    assert len(memory) == len(disk) == N
    for given in ((64, 5), (64, 6)):
        assert_same(memory.sample(*given), disk.sample(*given))
    assert_same(memory.sample(8, 1, n_batches=3), disk.sample(8, 1, n_batches=3))
    assert_same(memory.sample(8), disk.sample(8))  # further draws
    assert_same(memory.sample_trajectories(32, 60, 3), disk.sample_trajectories(32, 60, 3))
    told = memory.stats(), disk.stats()
    assert told[0].keys() == told[1].keys()
    for name in told[0]:
        np.testing.assert_array_equal(told[0][name], told[1][name], err_msg=name)


def test_a_batch_is_drawn_into_the_memory_of_one_before(tmp_path: Path) -> None:
    memory, disk = both("vectors", tmp_path)
    out = disk.sample(16, 1, n_batches=2)
    before = dict(out)
    assert disk.sample(16, 2, n_batches=2, out=out) is out
    assert all(out[name] is before[name] for name in ("obs", "next_obs", "actions"))
    assert_same(memory.sample(16, 2, n_batches=2), out)
    for wrong in (out["obs"][:, ::2], out["obs"].astype(np.float64)):
        with pytest.raises(ShapeError, match="expected contiguous float32"):
            disk.sample(16, 2, n_batches=2, out={**out, "obs": wrong})


def test_slices_of_a_column_are_its_rows_and_blocks_are_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BYTES_PER_READ", 130)
    whole = columns("vectors")
    write_dataset(make_dataset(whole, {}), tmp_path)
    column = read_dataset(tmp_path, max_bytes=0).columns["obs"]
    assert isinstance(column, FileColumn) and column.nbytes == whole["obs"].nbytes
    for part in (slice(0, 5), slice(17, 290), slice(290, 900), slice(-3, None), slice(5, 5)):
        np.testing.assert_array_equal(column[part], whole["obs"][part], strict=True)
    with pytest.raises(IndexError, match="a step of 1"):
        column[::2]
    found = [rows for _, (rows,) in iter_blocks(column)]
    assert len(found) > 20 and np.array_equal(np.concatenate(found), whole["obs"])
    spans = [part for part, _ in iter_blocks(column, overlap=1)]
    assert all(a.stop - 1 == b.start for a, b in pairwise(spans))


def test_a_file_that_is_cut_short_while_it_is_read_is_an_error_and_no_signal(
    tmp_path: Path,
) -> None:
    _, disk = both("vectors", tmp_path)
    os.truncate(tmp_path / DATA_FILE, 2_000)
    with pytest.raises(CheckpointError, match="was cut short: it has 2000 bytes"):
        disk.sample(256, 1)


def test_numbers_that_are_not_finite_are_found_where_they_are(tmp_path: Path) -> None:
    given = columns("vectors")
    given["next_obs"] = given["next_obs"].copy()
    given["next_obs"][250, 1] = np.nan
    write_dataset(make_dataset(given, {}), tmp_path)
    with pytest.raises(NonFiniteError, match=r"next_obs has nan at index 751"):
        read_dataset(tmp_path, max_bytes=0).buffer()


@pytest.mark.parametrize("kind", [BC, IQL, DecisionTransformer])
def test_a_run_that_reads_its_dataset_as_it_goes_learns_the_same_bits(kind: Any, tmp_path: Path) -> None:
    given = columns("vectors")
    given["actions"] = np.tanh(given["actions"])
    write_dataset(make_dataset(given, {}), tmp_path)
    options: dict[str, Any] = {"obs_dim": 3, "act_dim": 2, "batch_size": 8}
    if kind is BC:
        options["continuous"] = True
    found = []
    for memory in (None, "64"):
        algorithm = kind(tmp_path, memory=memory, **options)
        algorithm.train(20)
        source: Any = algorithm.source
        assert isinstance(source.load(), DatasetOnDisk) == (memory is not None)
        found.append([p.detach().numpy() for p in algorithm.policy.parameters()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_iql_refuses_a_buffer_memory_that_is_no_size() -> None:
    with pytest.raises(ConfigError, match=r"buffer\.memory=some"):
        IQL(Path("data"), obs_dim=3, act_dim=2, memory="some")
