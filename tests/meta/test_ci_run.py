"""Stages of `.ci/run`: each runs, what was not installed is tried again, the end names all that failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[2] / ".ci" / "run"
FUNCTION = CI.read_text(encoding="utf-8").partition("\nfailed=()\n")[2].partition("\n}\n")[0]
TRY = "echo try >>tries\n"
INSTALL = TRY + "[ $(wc -l <tries) -ge {} ]\ntouch program\n"  # done at that try


def ran(folder: Path, name: str, commands: str) -> tuple[int, list[str]]:
    """How often the commands of a stage `name` ran, and which stages failed, of it and one behind it."""
    script = (
        f"set -uo pipefail\nfailed=()\n{FUNCTION}\n}}\n"
        f"stage {name} <<'END'\n{commands}END\n"
        "stage behind <<'END'\ntouch behind\nEND\n"
        'printf "%s\\n" "${failed[@]}" >failed\n'
    )
    subprocess.run(["bash", "-c", script], cwd=folder, check=True, capture_output=True)
    assert (folder / "behind").exists()
    tries = (folder / "tries").read_text(encoding="utf-8").split()
    return len(tries), (folder / "failed").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(
    ("commands", "tries", "failed"),
    [
        (INSTALL.format(1), 1, []),
        (INSTALL.format(3), 3, []),
        (INSTALL.format(4), 3, ["named"]),
        (INSTALL.format(1) + "exit 5\n", 1, ["named"]),  # the program that it installed failed
    ],
)
def test_a_stage_runs_again_while_what_it_installs_is_missing(
    commands: str, tries: int, failed: list[str], tmp_path: Path
) -> None:
    assert ran(tmp_path, "named program", commands) == (tries, failed)


def test_a_stage_that_installs_nothing_runs_once(tmp_path: Path) -> None:
    assert ran(tmp_path, "named", TRY + "false\n") == (1, ["named"])
    assert ran(tmp_path, "named", TRY + "true\n") == (2, [])


def test_the_first_command_that_fails_ends_a_stage(tmp_path: Path) -> None:
    assert ran(tmp_path, "named", TRY + "false | cat\ntouch further\n") == (1, ["named"])
    assert not (tmp_path / "further").exists()
