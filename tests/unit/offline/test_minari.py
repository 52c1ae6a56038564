"""Tests that rows, spaces and episodes agree when datasets go to Minari's folders and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from gymnasium import spaces
from helpers.foreign_datasets import columns, dataset, spaces_metadata
from minari import MinariDataset

from rlox.envs.parts_codec import codec_of
from rlox.errors import CheckpointError, ConfigError, RloxError
from rlox.offline import convert_dataset, export_dataset
from rlox.offline.foreign import limits, minari
from rlox.runs.record import make_dataset
from rlox.sources.dataset_file import Dataset


def arrays(found: Dataset) -> dict[str, Any]:
    return {name: np.asarray(column) for name, column in found.columns.items()}


def test_minari_reads_exported_datasets(tmp_path: Path) -> None:
    observation, action = spaces.Box(-9, 9, (3,)), spaces.Box(-1, 1, (2,))
    given = dataset(tmp_path / "a", spaces_metadata(observation, action))
    export_dataset(given, tmp_path / "mine", "minari")
    read = MinariDataset(tmp_path / "mine" / "data")
    assert (read.observation_space, read.action_space) == (observation, action)
    assert (read.total_episodes, read.total_steps) == (5, 120)
    rows, first = columns(), next(iter(read.iterate_episodes()))
    np.testing.assert_array_equal(first.observations[:-1], rows["obs"][:25])
    np.testing.assert_array_equal(first.observations[-1], rows["next_obs"][24])
    np.testing.assert_array_equal(first.actions, rows["actions"][:25])
    assert first.terminations[-1] and not first.truncations.any()


def test_minari_keeps_actions_of_spaces_that_do_not_begin_at_0(tmp_path: Path) -> None:
    about = spaces_metadata(spaces.Box(-9, 9, (3,)), spaces.Discrete(4, start=3))
    given = dataset(tmp_path / "a", about, action=4)
    export_dataset(given, tmp_path / "m", "minari")
    with h5py.File(tmp_path / "m/data/main_data.hdf5") as file:
        assert file["episode_0/actions"][()].min() >= 3
    assert convert_dataset(tmp_path / "m", tmp_path / "b").digest == given.digest


@pytest.mark.parametrize(
    "space", [spaces.Discrete(4, start=-1), spaces.MultiDiscrete([[2, 3], [1, 4]])], ids=str
)
def test_observed_choices_are_integers_in_minari_and_one_hot_in_rows(
    space: spaces.Space[Any], tmp_path: Path
) -> None:
    space.seed(3)
    seen = np.stack([space.sample() for _ in range(121)])
    rows = codec_of(space).encode_batch(seen)
    made = columns() | {"obs": rows[:-1], "next_obs": rows[1:]}
    about = spaces_metadata(space, spaces.Box(-1, 1, (2,)))
    given = make_dataset(made, about)
    export_dataset(given, tmp_path / "m", "minari")
    assert convert_dataset(tmp_path / "m", tmp_path / "a").digest == given.digest
    read = MinariDataset(tmp_path / "m" / "data")
    assert read.observation_space == space
    first = next(iter(read.iterate_episodes()))
    np.testing.assert_array_equal(first.observations, seen[:26])
    odd = make_dataset(made | {"obs": rows[:-1] + 1, "next_obs": rows[1:] + 1}, about)
    with pytest.raises(ConfigError, match="the observations are not one-hot as rows of"):
        export_dataset(odd, tmp_path / "n", "minari")


def test_parts_of_minaris_observations_are_joined_as_policies_see_them(tmp_path: Path) -> None:
    about = spaces_metadata(spaces.Box(-9, 9, (3,)), spaces.Box(-1, 1, (2,)))
    export_dataset(dataset(tmp_path / "a", about), tmp_path / "m", "minari")
    meta = tmp_path / "m/data/metadata.json"
    said = json.loads(meta.read_text())
    parts = spaces.Dict({"b": spaces.Box(-9, 9, (2,)), "a": spaces.Discrete(3)})
    said |= spaces_metadata(parts, spaces.Box(-1, 1, (2,)))
    del said["rlox"]
    meta.write_text(json.dumps(said))
    rows = columns()
    with h5py.File(tmp_path / "m/data/main_data.hdf5", "a") as file:
        for number in range(5):
            episode = file[f"episode_{number}"]
            seen = episode["observations"][()]
            del episode["observations"]
            episode["observations/b"] = seen[:, :2]
            episode["observations/a"] = np.full(len(seen), number % 3)
    found = arrays(convert_dataset(tmp_path / "m", tmp_path / "b"))
    assert found["obs"].shape == (120, 5)
    np.testing.assert_array_equal(found["obs"][30], [0, 1, 0, *rows["obs"][30, :2]])


def test_an_unfinished_minari_episode_is_not_joined_to_the_next_one(tmp_path: Path) -> None:
    export_dataset(dataset(tmp_path / "a"), tmp_path / "m", "minari")
    meta = tmp_path / "m/data/metadata.json"
    said = json.loads(meta.read_text())
    del said["rlox"]
    meta.write_text(json.dumps(said))
    with h5py.File(tmp_path / "m/data/main_data.hdf5", "a") as file:
        for number, flag in ((0, "terminations"), (1, "truncations")):
            file[f"episode_{number}/{flag}"][24] = False
    found = arrays(convert_dataset(tmp_path / "m", tmp_path / "b"))
    assert np.flatnonzero(found["truncated"]).tolist() == [24, 49, 99]
    assert np.flatnonzero(found["terminated"]).tolist() == [74]  # and the last episode goes on


def test_a_long_episode_of_minari_is_read_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_dataset(dataset(tmp_path / "a", n=100), tmp_path / "m", "minari")
    _, whole = minari.read_minari(tmp_path / "m")
    expected = list(whole)
    monkeypatch.setattr(limits, "BYTES_PER_READ", 7 * (2 * 12 + 8))
    _, blocks = minari.read_minari(tmp_path / "m")
    parts = list(blocks)
    assert [len(part["rewards"]) for part in parts[:4]] == [7, 7, 7, 4]
    for name in expected[0]:
        one, other = (np.concatenate([b[name] for b in part]) for part in (expected, parts))
        np.testing.assert_array_equal(one, other, err_msg=name)


def test_a_half_written_minari_dataset_is_refused(tmp_path: Path) -> None:
    export_dataset(dataset(tmp_path / "a"), tmp_path / "m", "minari")
    meta = tmp_path / "m/data/metadata.json"
    meta.write_text(json.dumps(json.loads(meta.read_text()) | {"total_episodes": 9}))
    with pytest.raises(CheckpointError, match=r"has 5 episodes, metadata\.json says 9"):
        convert_dataset(tmp_path / "m", tmp_path / "b")


@pytest.mark.parametrize("pictures", [True, False])
def test_the_shape_error_mentions_jpeg_only_for_images(pictures: bool, tmp_path: Path) -> None:
    export_dataset(dataset(tmp_path / "a"), tmp_path / "m", "minari")
    meta = tmp_path / "m/data/metadata.json"
    said = json.loads(meta.read_text())
    space = spaces.Box(0, 255, (4, 4, 3), np.uint8) if pictures else spaces.Box(-9, 9, (3,))
    said |= spaces_metadata(space, spaces.Box(-1, 1, (2,)))
    del said["rlox"]
    meta.write_text(json.dumps(said))
    with h5py.File(tmp_path / "m/data/main_data.hdf5", "a") as file:
        for number in range(5):
            rows = len(file[f"episode_{number}/observations"])
            del file[f"episode_{number}/observations"]
            file[f"episode_{number}/observations"] = np.zeros((rows, 100), np.uint8)
    with pytest.raises(RloxError, match=r"has shape .*100.*, expected") as told:
        convert_dataset(tmp_path / "m", tmp_path / "b")
    assert ("JPEG" in str(told.value)) == pictures
