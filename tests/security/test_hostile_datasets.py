"""Tests crafted files: rlox refuses each with the reason, runs no code and allocates little memory."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.foreign_datasets import dataset
from helpers.hostile_datasets import HOSTILE, RunsCommand
from helpers.many_reads import read_many

from rlox.errors import CheckpointError, ConfigError, ShapeError
from rlox.offline import convert_dataset
from rlox.offline.foreign.formats import detect_format
from rlox.sources.dataset_file import DATA_FILE, read_dataset

ROOM = 256 << 20  # limit of the memory growth in bytes; a wrong size that rlox believes takes a gigabyte


def test_hostile_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    given = []
    for number, (kind, name, _, make) in enumerate(HOSTILE.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder)
        given.append((kind, folder / name))
    wrong = {}
    for (name, (_, _, said, _)), found in zip(HOSTILE.items(), read_many(given), strict=True):
        if not re.search(said, found.get("error", "")) or found["grown"] > ROOM:
            wrong[name] = found
    assert not wrong
    assert len(given) >= 50
    assert not Path("/tmp/rlox-was-here").exists()


@pytest.mark.parametrize("name", ["hdf5 an_external_link", "npz pickled_objects", "minari an_unknown_space"])
def test_converting_a_hostile_dataset_file_is_refused_and_leaves_no_folder(name: str, tmp_path: Path) -> None:
    kind, file, said, make = HOSTILE[name]
    make(tmp_path)
    assert detect_format(tmp_path / file) == kind
    with pytest.raises((CheckpointError, ConfigError), match=said):
        convert_dataset(tmp_path / file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_of_no_known_format_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(RunsCommand()))
    np.save(tmp_path / "b.npy", np.zeros(3))
    (tmp_path / "c.json").write_text("{}")
    for name in ("a.pkl", "b.npy", "c.json"):
        with pytest.raises(ConfigError, match="none of HDF5, npz and Parquet; pickled data is not read"):
            detect_format(tmp_path / name)


def header(**entries: Any) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
OWN = {
    "a header of an exabyte": (b"\xff" * 8 + b"{}", "is not a dataset"),
    "columns over one another": (header(obs=F32, rewards=F32) + b"\0" * 4, "is not a dataset"),
    "columns behind the end": (
        header(obs={**F32, "shape": [1 << 40], "data_offsets": [0, 1 << 42]}) + b"\0" * 4,
        "is not a dataset",
    ),
    "a type that NumPy has not": (
        header(obs={"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}) + b"\0" * 4,
        "columns of BF16",
    ),
    "other columns": (header(evil=F32) + b"\0" * 4, "is missing or unknown"),
    "a pickle": (pickle.dumps(RunsCommand()), "is not a dataset"),
}


@pytest.mark.parametrize("name", OWN)
def test_safetensors_that_lie_are_refused(name: str, tmp_path: Path) -> None:
    dataset(tmp_path)
    data, said = OWN[name]
    (tmp_path / DATA_FILE).write_bytes(data)
    for most in (0, 1e9):
        with pytest.raises((CheckpointError, ShapeError), match=said):
            read_dataset(tmp_path, most)
