"""Sets up every test: selection by marks, CPU budgets, one torch thread, reproducible properties."""

from __future__ import annotations

import os
import signal
from pathlib import Path

# Set before torch is imported; child processes inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("RLOX_CACHE", "")  # tests leave the user's cache alone

import pytest
import torch
from helpers.budgets import watch
from helpers.selection import Selection
from hypothesis import settings

pytest_plugins = ["helpers.fixtures"]
torch.set_num_threads(1)
# Tests may run in a git hook. Its variables name the user's checkout, to which every git here would write.
for name in [name for name in os.environ if name.startswith("GIT_")]:
    del os.environ[name]
# Commits of tests use none of the user's signatures and hooks.
os.environ |= {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "commit.gpgsign", "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.hooksPath", "GIT_CONFIG_VALUE_1": os.devnull,
}  # fmt: skip
# Under nohup this process and its children would ignore SIGHUP.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Selection(config), "rlox-selection")
    watch(config, Path(__file__).with_name("budgets.toml"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed the initial weights of torch layers, so that no test depends on earlier tests."""
    torch.default_generator.manual_seed(0)
