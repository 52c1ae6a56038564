"""Tests `rlox` for a user without write permission everywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.terminal import RLOX, SHORT, environment, expected_summary, only_run, run_summary
from helpers.tree import tree
from helpers.waiting import PATIENCE

NOBODY = 65534
# may read folders that only root may read (an interpreter's, on some machines), but write to none
SETPRIV = (
    "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


@pytest.fixture
def mine() -> Iterator[Path]:
    """Make a folder of an unprivileged user, who is the user of the tests unless that is root."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def as_nobody(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root cannot be somebody else here: no setpriv")
    line = [*(SETPRIV if os.geteuid() == 0 else ()), RLOX, *args]
    return subprocess.run(
        line, cwd=cwd, env=environment(HOME="/proc"), capture_output=True, text=True, timeout=2 * PATIENCE,
        check=False,
    )  # fmt: skip


def test_a_user_without_rights_trains_in_a_folder_of_their_own(mine: Path) -> None:
    ended = as_nobody(*SHORT, cwd=mine)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert run_summary(only_run(mine)) == expected_summary()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_run_of_somebody_else_can_be_looked_at_and_is_not_touched(mine: Path) -> None:
    line = [RLOX, *SHORT, "hydra.run.dir=run"]
    subprocess.run(line, cwd=mine, env=environment(), check=True, capture_output=True)
    (mine / "theirs").mkdir(mode=0o755)
    before = tree(mine)
    for args, place in (
        (("resume", "run", "total_steps=1024"), "run"),
        (("evaluate", "run", "episodes=2"), "run"),
        ((*SHORT, "run_root=theirs"), "theirs"),
        ((*SHORT, "hydra.run.dir=theirs/one"), "theirs"),
    ):
        ended = as_nobody(*args, cwd=mine)
        assert (ended.returncode, ended.stdout) == (5, ""), (args, ended)
        assert f"rlox {args[0]}: {place}" in ended.stderr
        assert "cannot be written: Permission denied" in ended.stderr
        assert tree(mine) == before
    listed = as_nobody("list", "runs", "run_root=.", cwd=mine)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "done" in listed.stdout
