"""What every test runs under: its tier, its budget, one torch thread, reproducible property tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

# Before torch is imported, and inherited by child processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import pytest
import torch
from helpers.budgets import watch
from helpers.tiers import Selection
from hypothesis import settings

torch.set_num_threads(1)
# under nohup it would be ignored, here and in child processes
signal.signal(signal.SIGHUP, signal.SIG_DFL)
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:
    selection = Selection(config)
    config.pluginmanager.register(selection, "rlox-tiers")
    watch(config, Path(__file__).with_name("budgets.toml"), selection.tier)


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory while the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
