"""Tests that the command collects garbage once at its end."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest
from helpers.cli import Cli

CODE = """
import atexit, gc
atexit.register(lambda: print("frozen", gc.get_freeze_count() > 1000, flush=True))  # runs last
from rlox_cli.main import main

class Loop:
    def __init__(self):
        self.itself = self

    def __del__(self):
        print("let go", flush=True)

main(["--version"])
Loop()
"""


def test_the_command_frees_garbage_once_at_its_end() -> None:
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["let go", "frozen True"]


@pytest.mark.parametrize("word", ["--version", "-V"])
def test_the_version_is_that_of_the_distribution_that_is_installed(cli: Cli, word: str) -> None:
    assert cli(word).out == f"rlox {importlib.metadata.version('rlox-runner')}\n"
