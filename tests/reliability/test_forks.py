"""Tests that a forked child works after a fork at any moment and waits for no missing thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faults.report import record
from helpers.selection import FULL
from helpers.waiting import PATIENCE

import rlox

FORKS = 200 if FULL else 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_push_sample_step_and_save_while_the_parent_does():
    root, tests = Path(rlox.__file__).parents[1], Path(__file__).parents[1]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), str(tests)])}
    command = [sys.executable, "-m", "faults.forks", str(FORKS), "0"]
    done = subprocess.run(command, env=paths, capture_output=True, text=True, timeout=9 * PATIENCE)
    assert done.returncode == 0, done.stderr[-2_000:]
    counts = json.loads(done.stdout)
    parent = counts.pop("parent")
    assert {how for ends in counts.values() for how in ends} == {"exit 0"}, (counts, done.stderr)
    assert parent == {}, "what the parent's own threads raised"
    record("forks at random moments", {kind: ends["exit 0"] for kind, ends in counts.items()})
