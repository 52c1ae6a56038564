"""Tests a dataset as source: draws depend only on the seed and their number; columns are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from rlox import OfflineDatasetBuffer
from rlox.errors import CheckpointError, ConfigError, ShapeError
from rlox.rng import Streams
from rlox.runs.record import write_dataset
from rlox.sources import dataset_file
from rlox.sources.dataset import BATCHES_PER_BLOCK, DatasetSource
from rlox.sources.dataset_file import (
    DATA_FILE,
    DOCUMENT_FILE,
    Dataset,
    columns_of,
    digest_of,
    read_dataset,
)
from rlox.sources.preparation import LoadedDataset, Preparation
from rlox.sources.store import InMemoryStore
from rlox.types import Clock, Update

N = 50


def columns() -> dict[str, Any]:
    """Row k has observation k, action k % 3, reward -k; row 19 terminates, row 39 is truncated."""
    k = np.arange(N)
    return {
        "obs": np.stack([k, 2 * k], 1).astype(np.float32),
        "next_obs": np.stack([k + 1, 2 * k + 2], 1).astype(np.float32),
        "actions": k % 3,
        "rewards": (-k).astype(np.float32),
        "terminated": k == 19,
        "truncated": k == 39,
    }


def source(seed: int = 1, digest: str = "d") -> DatasetSource:
    made = Dataset(columns(), {}, digest)
    given = LoadedDataset(made.buffer(), digest, made.columns)
    return DatasetSource(lambda: given, 4, Streams(seed), Preparation(gamma=0.9))


def drawn(made: DatasetSource, total: int, horizon: int | None = None) -> list[list[int]]:
    """Returns the rows of each batch up to `total`."""
    clock = Clock(updates=made.batches, unit="updates", horizon=horizon or total)
    found: list[list[int]] = []
    while clock.now < total:
        batch, progress = made.next(clock)
        assert progress.env_steps == 0
        found += batch.indices.tolist()
        clock = clock.tick(progress, Update(count=len(batch)))
    return found


def test_a_batch_is_rows_of_the_dataset_with_a_discount_of_0_after_termination_only() -> None:
    batch, _ = source().next(Clock(unit="updates"))
    rows, given = batch.indices.astype(int), columns()
    assert len(batch) == BATCHES_PER_BLOCK
    for name, column in (
        ("obs", batch.obs),
        ("next_obs", batch.next_obs),
        ("rewards", batch.rewards),
    ):
        np.testing.assert_array_equal(column, given[name][rows])
    np.testing.assert_array_equal(batch.actions[..., 0], given["actions"][rows])
    np.testing.assert_allclose(batch.discounts, np.where(rows == 19, 0.0, 0.9), rtol=1e-6)
    assert {19, 39} <= set(rows.ravel().tolist())


def test_batches_depend_only_on_the_seed_and_their_number() -> None:
    whole = drawn(source(), 70)
    assert len(whole) == 70
    cut = source()
    assert [row for total in (5, 16, 17, 55, 70) for row in drawn(cut, total)] == whole
    assert drawn(source(2), 70) != whole


def test_a_source_goes_on_where_it_was_saved_and_refuses_another_dataset() -> None:
    whole, first = drawn(source(), 70), source()
    drawn(first, 37)
    saved = first.save(InMemoryStore())
    again = source()
    again.restore(saved, InMemoryStore())
    assert again.resume_warning(saved) == ""
    assert drawn(again, 70) == whole[37:]
    loaded = source(digest="other")
    loaded.load()
    for other in (loaded, source(digest="other")):
        with pytest.raises(CheckpointError, match="another dataset: its digest was d"):
            other.restore(saved, InMemoryStore())
            other.next(Clock(unit="updates"))
    with pytest.raises(CheckpointError, match="-1 batches"):
        source().restore({**saved, "batches": -1}, InMemoryStore())


def written(folder: Path, **changes: Any) -> Path:
    made = {**columns(), **changes}
    write_dataset(Dataset(made, {"format": 1, "env": "any"}, digest_of(made)), folder)
    return folder


def test_a_written_dataset_is_read_back_as_it_was(tmp_path: Path) -> None:
    read = read_dataset(written(tmp_path / "new" / "data"))
    for name, column in columns().items():
        assert read.columns[name].dtype == column.dtype
        np.testing.assert_array_equal(read.columns[name], column)
    assert read.about["env"] == "any"
    assert read.buffer().stats()["n_episodes"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rewards": np.zeros(N)}, "rewards is float64, expected float32"),
        ({"obs": np.zeros((N, 2, 2), np.float32)}, r"obs has shape \(50, 2, 2\)"),
        ({"actions": np.zeros(N - 1, np.int64)}, r"actions has shape \(49,\) beside 50 rewards"),
        ({"priorities": np.zeros(N, np.float32)}, "'priorities' is missing or unknown"),
        (
            {"next_obs": np.zeros_like(columns()["obs"], np.uint8)},
            "next_obs has dtype uint8, expected that of obs, float32",
        ),
    ],
)
def test_columns_that_are_not_a_datasets_are_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        read_dataset(written(tmp_path, **changes))


def test_a_dataset_that_is_damaged_missing_or_half_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r": expected the folder of a dataset, with dataset.safetensors"):
        read_dataset(tmp_path)
    written(tmp_path)
    data = columns() | {"rewards": np.ones(N, np.float32)}
    (tmp_path / DATA_FILE).write_bytes(safetensors.numpy.save(data))
    with pytest.raises(CheckpointError, match="damaged"):
        read_dataset(tmp_path)
    (tmp_path / DATA_FILE).write_bytes(b"no")
    with pytest.raises(CheckpointError, match="not a dataset"):
        read_dataset(tmp_path)
    written(tmp_path)
    document = json.loads((tmp_path / DOCUMENT_FILE).read_text())
    (tmp_path / DOCUMENT_FILE).write_text(json.dumps({**document, "format": 2}))
    with pytest.raises(CheckpointError, match="format 2"):
        read_dataset(tmp_path)
    (tmp_path / DOCUMENT_FILE).unlink()
    with pytest.raises(ConfigError, match="expected the folder"):
        read_dataset(tmp_path)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_observations_of_any_shape_and_precision_reach_a_policy_as_float32_rows(dtype: Any) -> None:
    obs = np.arange(N * 6, dtype=dtype).reshape(N, 2, 3)
    no = np.zeros(N, bool)
    buffer = OfflineDatasetBuffer(obs, obs + 6, np.zeros((N, 1, 2)), np.arange(N) / 1.0, no, no)
    made = DatasetSource(lambda: LoadedDataset(buffer, "d", {}), 4, Streams(1))
    batch, _ = made.next(Clock(unit="updates"))
    rows = batch.indices.astype(int)
    np.testing.assert_array_equal(batch.obs, obs.reshape(N, 6)[rows].astype(np.float32))
    np.testing.assert_array_equal(batch.next_obs, obs.reshape(N, 6)[rows].astype(np.float32) + 6)
    assert batch.obs.dtype == batch.next_obs.dtype == batch.rewards.dtype == torch.float32
    assert batch.actions.shape == (BATCHES_PER_BLOCK, 4, 2)


def test_a_source_saves_moments_only_of_a_normalized_dataset() -> None:
    plain, given = columns(), columns()
    given["obs"] = np.stack([plain["obs"][:, 0], np.full(N, 7.0, np.float32)], 1)
    buffer = OfflineDatasetBuffer(**given, normalize=True)
    made = DatasetSource(lambda: LoadedDataset(buffer, "d", {}), 4, Streams(1))
    made.load()
    saved = made.save(InMemoryStore())
    assert set(saved) == {"batches", "digest", "obs_mean", "obs_std"}
    again = source()
    again.restore(saved, InMemoryStore())
    rows = np.array([[3.0, 9.0]], np.float32)
    again.normalizer.apply(rows)
    mean, std = (N - 1) / 2, np.sqrt((N**2 - 1) / 12)  # of 0 to N - 1; a constant column is only centred
    np.testing.assert_allclose(rows, [[(3 - mean) / std, 2.0]], rtol=1e-6)
    loaded = source()
    loaded.load()
    assert set(loaded.save(InMemoryStore())) == {"batches", "digest"}


def test_columns_of_a_dataset_in_memory_keep_their_rows_and_order() -> None:
    given = columns()
    for seed in (0, 1):
        found = columns_of(OfflineDatasetBuffer(**given, seed=seed))
        assert set(found) == set(given)
        for name, column in given.items():
            np.testing.assert_array_equal(found[name].reshape(column.shape), column)
    standardised = columns_of(OfflineDatasetBuffer(**given, normalize=True))
    np.testing.assert_allclose(standardised["obs_mean"], given["obs"].mean(0))
    np.testing.assert_allclose(standardised["obs_std"], given["obs"].std(0), rtol=1e-6)


class Watched:
    """A dataset in memory that records the size of the largest request."""

    normalized = False

    def __init__(self) -> None:
        self.rows, self.most = OfflineDatasetBuffer(**columns()), 0

    def __len__(self) -> int:
        return N

    def sample(self, size: int, draw: int, out: Any = None) -> dict[str, Any]:
        drawn = self.rows.sample(size, draw, out=out)
        self.most = max(self.most, sum(column.nbytes for column in drawn.values()))
        return drawn


def test_reading_a_datasets_columns_never_draws_more_than_bytes_per_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dataset_file, "BYTES_PER_DRAW", 500)
    watched: Any = Watched()
    found = columns_of(watched)
    assert 250 < watched.most <= 500
    for name, column in columns().items():
        np.testing.assert_array_equal(found[name].reshape(column.shape), column)
