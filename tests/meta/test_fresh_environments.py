"""Tests the environments of the nightly tier: choice of Python, lowest versions, outcomes of a stage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fresh_environments
import pytest
from fresh_environments import (
    NOT_AVAILABLE,
    NotAvailableError,
    interpreter,
    lowest_constraints,
    main,
    run,
)

ROOT = Path(__file__).resolve().parents[2]


def program(path: Path, *lines: str) -> Path:
    """Write a shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine whose Python shim fails, without a pyenv Python, and with a uv that installs none."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "pythons"))
    program(tmp_path / "bin/python3.13", "exit 127")
    program(tmp_path / "bin/uv", "exit 2")
    return tmp_path


def test_the_python_of_a_version_is_the_first_that_starts(machine: Path) -> None:
    program(machine / "pyenv/versions/3.13.0/bin/python", "exit 1")
    works = program(machine / "pyenv/versions/3.13.1/bin/python", "echo 3.13")
    assert interpreter("3.13", machine) == str(works)
    program(machine / "bin/python3.13", "echo 3.13")
    assert interpreter("3.13", machine) == "python3.13"


def test_a_python_that_uv_can_install_is_found(machine: Path) -> None:
    program(machine / "installed", "echo 3.13")
    program(machine / "bin/uv", f'[ "$2" = install ] || echo {machine}/installed')
    assert interpreter("3.13", machine) == str(machine / "installed")


def test_a_python_of_another_version_is_not_taken(machine: Path) -> None:
    program(machine / "bin/python3.13", "echo 3.12")
    with pytest.raises(NotAvailableError, match=r"no Python 3\.13 on the path"):
        interpreter("3.13", machine)


def test_the_lowest_versions_are_the_lower_bounds_of_dependencies_and_extras(
    tmp_path: Path,
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy>=2.2,<3", "hydra-core==1.3.8", "omegaconf"]\n'
        "[project.optional-dependencies]\n"
        'video = ["imageio[ffmpeg]>=2.36"]\nbox2d = ["gymnasium[box2d]"]\nagain = ["numpy>=2.2"]\n'
        'dev = ["pytest>=8.3"]\n',
        encoding="utf-8",
    )
    assert lowest_constraints(tmp_path / "pyproject.toml") == ["imageio==2.36", "numpy==2.2"]
    assert len(lowest_constraints(ROOT / "pyproject.toml")) > 20


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the environment `x`, which contains a file left by a killed run."""
    monkeypatch.setattr(fresh_environments, "ROOT", tmp_path)
    place = tmp_path / ".cache/nightly/environments/x"
    (place / "left").mkdir(parents=True)
    return place


@pytest.mark.parametrize(
    ("command", "code", "last"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit(3)", 1, "exit code 3: "),
        ("", NOT_AVAILABLE, "not available: no Python"),
    ],
    ids=["passes", "fails", "not available"],
)
def test_an_environment_is_made_in_an_empty_folder_and_removed_however_it_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    command: str, code: int, last: str,
) -> None:  # fmt: skip
    seen = []

    def stage(place: Path, junit: Path) -> None:
        seen.append((place, list(place.iterdir())))
        if not command:
            raise NotAvailableError("no Python")
        run(sys.executable, "-c", command, cwd=place)

    monkeypatch.setitem(fresh_environments.ENVIRONMENTS, "x", stage)
    assert main(["x", "junit.xml"]) == code
    assert seen == [(folder, [])]
    assert not folder.exists()
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)


def test_a_command_that_fails_ends_the_stage() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        run(sys.executable, "-c", "import sys; sys.exit(1)")
