"""Hints for missing packages name what pip really fetches."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

import rlox
from rlox.extras import DISTRIBUTION, install

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def test_the_distribution_is_not_that_of_the_other_project() -> None:
    assert PROJECT["project"]["name"] == DISTRIBUTION != "rlox"


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"dev", "peers"}))
def test_a_hint_names_each_requirement_of_the_extra(extra: str) -> None:
    words = install(extra).split()
    assert words[:2] == ["pip", "install"]
    assert sorted(word.strip("'").replace(",", "") for word in words[2:]) == sorted(
        asked.replace(",", "").replace(" ", "") for asked in EXTRAS[extra]
    )


def test_the_files_of_another_rlox_in_the_same_folder_are_refused_on_import(tmp_path: Path) -> None:
    (tmp_path / "rlox_runner-0.1.0.dist-info").mkdir()
    rlox._require_own_folder(tmp_path)
    (tmp_path / "rlox-1.2.0.dist-info").mkdir()
    with pytest.raises(
        ImportError, match=r"rlox-1\.2\.0, another .*: pip uninstall rlox rlox-runner"
    ):
        rlox._require_own_folder(tmp_path)


def test_a_checkout_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert install("atari") == "pip install '.[atari]' in a checkout of rlox"
