"""Tests of `RLOX_CONF_PATH`: one or several folders of the user, and entries that are no folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers.cli import Cli, assert_explained


def folder(path: Path, **presets: int) -> Path:
    """Write a conf folder with presets that set the seed."""
    (path / "exp").mkdir(parents=True)
    for name, seed in presets.items():
        (path / "exp" / f"{name}.yaml").write_text(f"# @package _global_\nseed: {seed}\n")
    return path


def test_rlox_conf_path_uses_every_folder_and_the_last_wins(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = folder(tmp_path / "one", both=1, first=11)
    two = folder(tmp_path / "two", both=2, second=22)
    monkeypatch.setenv("RLOX_CONF_PATH", os.pathsep.join(["", str(one), str(two), ""]))
    for name, seed in (("first", 11), ("second", 22), ("both", 2)):
        out = cli("train", f"exp={name}", "--cfg", "job").out
        assert f"\nseed: {seed}\n" in f"\n{out}", name
    listed = cli("list", "exp").out
    assert all(name in listed for name in ("both", "first", "second", "classic_control"))


def test_config_dir_overrides_rlox_conf_path_and_both_override_shipped_files(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = folder(tmp_path / "own", both=1, mine=11, classic_control=12)
    folder(tmp_path / "typed", both=2)
    monkeypatch.setenv("RLOX_CONF_PATH", str(own))
    typed = ("--config-dir", "typed")
    for name, seed in (("both", 2), ("mine", 11), ("classic_control", 12)):
        out = cli("train", *typed, f"exp={name}", "--cfg", "job").out
        assert f"\nseed: {seed}\n" in f"\n{out}", name
    swept = cli("sweep", *typed, "exp=both", "algo.gamma=0.8,0.9", "dry_run=true")
    assert swept.out.count("seed 2, ") == 2, swept.err
    typed_itself = folder(tmp_path / "third", classic_control=3)
    out = cli("train", "--config-dir", str(typed_itself), "exp=classic_control", "--cfg", "job").out
    assert "\nseed: 3\n" in f"\n{out}"


@pytest.mark.parametrize("args", [("train", "--cfg", "job"), ("list", "algo"), ("doctor",)])
@pytest.mark.parametrize(("name", "told"), [("nowhere", "no such folder"), ("file", "a file")])
def test_commands_refuse_an_rlox_conf_path_entry_that_is_no_folder(
    cli: Cli, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], name: str, told: str,
) -> None:  # fmt: skip
    place = tmp_path_factory.mktemp("place")
    (place / "file").touch()
    monkeypatch.setenv("RLOX_CONF_PATH", os.pathsep.join([str(place), str(place / name)]))
    result = cli(*args)
    assert_explained(result, f"RLOX_CONF_PATH: {place / name}: {told}", tmp_path)
    assert "unset RLOX_CONF_PATH" in result.err
