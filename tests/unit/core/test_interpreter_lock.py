"""Tests that the extension requires the interpreter's lock, which gives its arrays one user at a time."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("locked", [True, False])
def test_an_interpreter_that_runs_without_its_lock_is_refused(locked: bool) -> None:
    # the answer of a free-threaded Python while the module loads
    script = f"import sys; sys._is_gil_enabled = lambda: {locked}; import rlox._core"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    refused = "ImportError: rlox needs the interpreter's lock (GIL), but this process was started without it"
    assert (done.returncode == 0, refused in done.stderr) == (locked, not locked), done.stderr
