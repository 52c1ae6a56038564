"""Which run at a server a folder is: one that was moved keeps it, one that was copied has its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlox.loggers.remote import Record

IDS = [("mlflow", "0a1b", "rlox.run"), ("wandb", "run", "id")]


@pytest.fixture(params=IDS, ids=lambda made: made[0])
def made(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    return request.param  # type: ignore[no-any-return]


def a_run(folder: Path, made: tuple[str, str, str]) -> Path:
    (folder / "plots").mkdir(parents=True)
    (folder / "plots" / "a.png").write_bytes(b"1")
    record = Record(folder, *made)
    assert record.id(new="first") == "first"
    record.note_sent(record.unsent(checkpoints=False))
    return folder


def test_a_copied_folder_has_a_run_of_its_own_and_the_original_keeps_its_run(
    tmp_path: Path, made: tuple[str, str, str]
) -> None:
    first = a_run(tmp_path / "first", made)
    copy = shutil.copytree(first, tmp_path / "copy")
    record = Record(copy, *made)
    assert set(record.unsent(checkpoints=False)) == {"plots/a.png"}
    assert record.id(new="second") == "second"
    assert Record(copy, *made).id(new="third") == "second"
    assert Record(first, *made).id(new="third") == "first"
    assert Record(first, *made).unsent(checkpoints=False) == {}


@pytest.mark.parametrize("again", [False, True], ids=["moved", "moved-and-another-in-its-place"])
def test_a_folder_that_was_moved_keeps_its_run(
    tmp_path: Path, made: tuple[str, str, str], again: bool
) -> None:
    first = a_run(tmp_path / "first", made)
    moved = first.rename(tmp_path / "moved")
    if again:
        first.mkdir()
        assert Record(first, *made).id(new="another") == "another"
    assert Record(moved, *made).id(new="second") == "first"
    copy = shutil.copytree(moved, tmp_path / "copy")
    assert Record(copy, *made).id(new="third") == "third"


def test_a_folder_that_is_reached_by_a_link_is_no_copy(
    tmp_path: Path, made: tuple[str, str, str]
) -> None:
    first = a_run(tmp_path / "first", made)
    (tmp_path / "link").symlink_to(first)
    assert Record(tmp_path / "link", *made).id(new="second") == "first"


@pytest.mark.parametrize("place", [None, 7, "", "\0", "x" * 9999, "/dev/null"])
def test_a_record_with_no_place_or_a_strange_one_is_the_folders_own(
    tmp_path: Path, made: tuple[str, str, str], place: object
) -> None:
    first = a_run(tmp_path / "first", made)
    file = first / "loggers" / f"{made[0]}.runs.json"
    saved = json.loads(file.read_text())
    saved[made[1]]["folder"] = place
    file.write_text(json.dumps(saved))
    assert Record(first, *made).id(new="second") == "first"
