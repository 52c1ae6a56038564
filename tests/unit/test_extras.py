"""Tests that hints for missing packages name what pip really fetches."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rlox
from rlox.extras import DISTRIBUTION, install_command

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def test_the_distribution_has_another_name_than_rlox() -> None:
    assert PROJECT["project"]["name"] == DISTRIBUTION != "rlox"


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"dev", "peers"}))
def test_a_hint_names_each_requirement_of_the_extra(extra: str) -> None:
    words = install_command(extra).split()
    assert words[:2] == ["pip", "install"]
    assert sorted(word.strip("'").replace(",", "") for word in words[2:]) == sorted(
        asked.replace(",", "").replace(" ", "") for asked in EXTRAS[extra]
    )


def test_the_files_of_another_rlox_in_the_same_folder_are_refused_on_import(tmp_path: Path) -> None:
    (tmp_path / "rlox_runner-0.1.0.dist-info").mkdir()
    rlox._require_own_folder(tmp_path)
    (tmp_path / "rlox-1.2.0.dist-info").mkdir()
    with pytest.raises(ImportError, match=r"rlox-1\.2\.0, another .*: pip uninstall rlox rlox-runner"):
        rlox._require_own_folder(tmp_path)


def run_script(site_packages: Path) -> subprocess.CompletedProcess[str]:
    """Runs the script `rlox` of a folder of packages."""
    script = (
        f"import sys; sys.path.insert(0, {str(site_packages)!r})\n"
        "from rlox_cli.start import main; sys.exit(main())"
    )
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


def test_the_command_names_another_rlox_that_was_installed_later_before_it_imports_it(
    tmp_path: Path,
) -> None:
    """Its files have replaced ours, including the check on import."""
    for package in ("rlox", "rlox_cli"):
        (tmp_path / package).mkdir()
    for name in ("__init__.py", "start.py"):
        shutil.copy(Path(rlox.__file__).parents[1] / "rlox_cli" / name, tmp_path / "rlox_cli")
    (tmp_path / "rlox" / "__init__.py").write_text("print('theirs')\n__version__ = '1.2.0'\n")
    (tmp_path / "rlox-1.2.0.dist-info").mkdir()
    done = run_script(tmp_path)
    with pytest.raises(ImportError) as ours:
        rlox._require_own_folder(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"rlox: {ours.value}\n")


def test_a_checkout_that_is_not_installed_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    assert install_command("atari") == "pip install '.[atari]' in a checkout of rlox"
