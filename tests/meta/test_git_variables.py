"""Tests that git answers for the folder that code asks about, even in a hook of another checkout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import machine
from helpers import checkout
from helpers.repositories import commit_all

from rlox_cli.runs import provenance


def make_repository(folder: Path, text: str) -> str:
    """Make a repository with one file; return the id of its commit."""
    folder.mkdir()
    (folder / "file.txt").write_text(text, encoding="utf-8")
    return commit_all(folder, text)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """Return a repository and its commit, while git's variables name another one."""
    commit_id = make_repository(tmp_path / "ours", "ours")
    make_repository(tmp_path / "theirs", "theirs")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "theirs" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "theirs"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "theirs" / ".git" / "index"))
    return tmp_path / "ours", commit_id


COMMIT_READERS: dict[str, Callable[[Path], Any]] = {
    "a run's provenance": lambda folder: provenance.git_state(folder)["sha"],  # type: ignore[index]
    "a measurement": lambda folder: machine.describe_commit(folder)["id"],
    "a report of tests": lambda folder: checkout.code(folder, [Path("report.json")])["commit"],
}


@pytest.mark.parametrize("who", COMMIT_READERS)
def test_the_commit_of_a_folder_ignores_git_variables(who: str, repository: tuple[Path, str]) -> None:
    folder, expected = repository
    assert COMMIT_READERS[who](folder) == expected


def test_commits_in_tests_ignore_the_users_signing_and_hooks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (hooks / "pre-commit").chmod(0o755)
    config = f"[commit]\n\tgpgsign = true\n[gpg]\n\tprogram = false\n[core]\n\thooksPath = {hooks}\n"
    (tmp_path / ".gitconfig").write_text(config, encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert len(make_repository(tmp_path / "one", "one")) == 40
