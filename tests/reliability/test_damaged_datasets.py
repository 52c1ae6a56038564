"""Tests that damaged datasets of every format are refused or read with the written rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.foreign_datasets import SUFFIX, dataset
from helpers.many_reads import read_many

from rlox.errors import RloxError
from rlox.offline import export_dataset
from rlox.sources.dataset_file import DATA_FILE, DOCUMENT_FILE, read_dataset

COUNT = 200  # for each of the five formats

# The file of a dataset to damage.
INSIDE = {"minari": "data/main_data.hdf5"}


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip a bit, zero a range, copy bytes from another place, or cut off the end."""
    found, at = bytearray(data), int(rng.integers(len(data)))
    kind, size = int(rng.integers(4)), int(rng.integers(1, 200))
    if kind == 0:
        found[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        found[at : at + size] = bytes(len(found[at : at + size]))
    elif kind == 2:
        there = int(rng.integers(len(data)))
        found[at : at + size] = found[there : there + len(found[at : at + size])]
    else:
        del found[at:]
    return bytes(found)


@pytest.mark.parametrize("form", SUFFIX)
def test_a_damaged_file_of_another_format_gives_an_error_or_its_rows(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{SUFFIX[form]}"
    export_dataset(dataset(tmp_path / "given"), path, form)
    whole = (path / INSIDE.get(form, "")).read_bytes()
    rng = np.random.default_rng(len(form))
    given = [(form, path)]
    for number in range(COUNT):
        copy = tmp_path / f"{number}{SUFFIX[form]}"
        if form in INSIDE:
            shutil.copytree(path, copy)
        (copy / INSIDE.get(form, "")).write_bytes(damaged(whole, rng))
        given.append((form, copy))
    sound, *found = read_many(given)
    assert "error" not in sound
    told: dict[str, int] = {}
    for one in found:
        told[outcome(one, sound)] = told.get(outcome(one, sound), 0) + 1
    print(form, told)
    assert told.keys() <= {"refused", "refused by its digest", "the reader died", "the same rows"}
    assert told.get("refused", 0) > COUNT // 8


def outcome(found: dict[str, Any], sound: dict[str, Any]) -> str:
    """Classify the result of reading a damaged file."""
    if "crash" in found:
        return "the reader died"
    if "error" in found:
        return "refused"
    if found["rows"] == sound["rows"]:
        return "the same rows"
    # the stored digest differs from that of these rows (`write_dataset` compares them)
    return "refused by its digest" if found["digest"] else "other rows"


def test_a_damaged_dataset_of_rlox_gives_an_error_or_its_rows(tmp_path: Path) -> None:
    given = dataset(tmp_path)
    rng = np.random.default_rng(7)
    for name in (DATA_FILE, DOCUMENT_FILE):
        whole = (tmp_path / name).read_bytes()
        refused = 0
        for _ in range(COUNT // 2):
            bad = damaged(whole, rng)
            (tmp_path / name).write_bytes(bad)
            try:
                found = read_dataset(tmp_path, max_bytes=float(rng.choice([0.0, 1e9])))
            except RloxError:
                refused += 1
                continue
            assert found.digest == given.digest
            assert bad == whole or name == DOCUMENT_FILE
        assert refused > COUNT // 4
        (tmp_path / name).write_bytes(whole)
    assert json.loads((tmp_path / DOCUMENT_FILE).read_text())["digest"] == given.digest
