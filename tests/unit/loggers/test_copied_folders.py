"""Tests that a moved folder keeps its run at a server, and that a copied folder gets a new one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlox.loggers.remote import SyncRecord

RECORD_ARGS = [("mlflow", "0a1b", "rlox.run"), ("wandb", "run", "id")]


@pytest.fixture(params=RECORD_ARGS, ids=lambda record_args: record_args[0])
def record_args(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    return request.param  # type: ignore[no-any-return]


def make_run_folder(folder: Path, record_args: tuple[str, str, str]) -> Path:
    (folder / "plots").mkdir(parents=True)
    (folder / "plots" / "a.png").write_bytes(b"1")
    record = SyncRecord(folder, *record_args)
    assert record.ensure_id(new_id="first") == "first"
    record.note_sent(record.unsent(checkpoints=False))
    return folder


def test_a_copied_folder_has_a_run_of_its_own_and_the_original_keeps_its_run(
    tmp_path: Path, record_args: tuple[str, str, str]
) -> None:
    first = make_run_folder(tmp_path / "first", record_args)
    copy = shutil.copytree(first, tmp_path / "copy")
    record = SyncRecord(copy, *record_args)
    assert set(record.unsent(checkpoints=False)) == {"plots/a.png"}
    assert record.ensure_id(new_id="second") == "second"
    assert SyncRecord(copy, *record_args).ensure_id(new_id="third") == "second"
    assert SyncRecord(first, *record_args).ensure_id(new_id="third") == "first"
    assert SyncRecord(first, *record_args).unsent(checkpoints=False) == {}


@pytest.mark.parametrize("again", [False, True], ids=["moved", "moved-and-another-in-its-place"])
def test_a_folder_that_was_moved_keeps_its_run(
    tmp_path: Path, record_args: tuple[str, str, str], again: bool
) -> None:
    first = make_run_folder(tmp_path / "first", record_args)
    moved = first.rename(tmp_path / "moved")
    if again:
        first.mkdir()
        assert SyncRecord(first, *record_args).ensure_id(new_id="another") == "another"
    assert SyncRecord(moved, *record_args).ensure_id(new_id="second") == "first"
    copy = shutil.copytree(moved, tmp_path / "copy")
    assert SyncRecord(copy, *record_args).ensure_id(new_id="third") == "third"


def test_a_folder_that_is_reached_by_a_link_is_no_copy(
    tmp_path: Path, record_args: tuple[str, str, str]
) -> None:
    first = make_run_folder(tmp_path / "first", record_args)
    (tmp_path / "link").symlink_to(first)
    assert SyncRecord(tmp_path / "link", *record_args).ensure_id(new_id="second") == "first"


@pytest.mark.parametrize("place", [None, 7, "", "\0", "x" * 9999, "/dev/null"])
def test_a_record_with_an_invalid_folder_belongs_to_its_own_folder(
    tmp_path: Path, record_args: tuple[str, str, str], place: object
) -> None:
    first = make_run_folder(tmp_path / "first", record_args)
    file = first / "loggers" / f"{record_args[0]}.runs.json"
    saved = json.loads(file.read_text())
    saved[record_args[1]]["folder"] = place
    file.write_text(json.dumps(saved))
    assert SyncRecord(first, *record_args).ensure_id(new_id="second") == "first"
