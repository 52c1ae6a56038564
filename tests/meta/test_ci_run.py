"""Tests the stages of `.ci/run`: every stage runs, installations are retried, the end lists failures."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CI_SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "run"
STAGE_FUNCTION = CI_SCRIPT.read_text(encoding="utf-8").partition("\nfailed=()\n")[2].partition("\n}\n")[0]
TRY_COMMAND = "echo try >>tries\n"
INSTALL_COMMANDS = TRY_COMMAND + "[ $(wc -l <tries) -ge {} ]\ntouch program\n"  # exists after that try


def run_stage(folder: Path, name: str, commands: str) -> tuple[int, list[str]]:
    """Return how often the commands of stage `name` ran, and which stages failed.

    A second stage follows, which has to run in any case.
    """
    script = (
        f"set -uo pipefail\nfailed=()\n{STAGE_FUNCTION}\n}}\n"
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
        (INSTALL_COMMANDS.format(1), 1, []),
        (INSTALL_COMMANDS.format(3), 3, []),
        (INSTALL_COMMANDS.format(4), 3, ["named"]),
        (
            INSTALL_COMMANDS.format(1) + "exit 5\n",
            1,
            ["named"],
        ),  # the installed program fails
    ],
)
def test_a_stage_runs_up_to_three_times_until_its_program_exists(
    commands: str, tries: int, failed: list[str], tmp_path: Path
) -> None:
    assert run_stage(tmp_path, "named program", commands) == (tries, failed)


def test_a_stage_that_installs_nothing_runs_once(tmp_path: Path) -> None:
    assert run_stage(tmp_path, "named", TRY_COMMAND + "false\n") == (1, ["named"])
    assert run_stage(tmp_path, "named", TRY_COMMAND + "true\n") == (2, [])


def test_the_first_command_that_fails_ends_a_stage(tmp_path: Path) -> None:
    assert run_stage(tmp_path, "named", TRY_COMMAND + "false | cat\ntouch further\n") == (
        1,
        ["named"],
    )
    assert not (tmp_path / "further").exists()
