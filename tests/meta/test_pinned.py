"""Tests that a child with pinned kernels uses those that every x86 CPU has, also on a newer CPU."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest
from helpers import pinned_floats

TOLD = """
import json, numpy, torch
from numpy._core import _multiarray_umath as numpys
print(json.dumps({
    "torch": torch.backends.cpu.get_cpu_capability(),
    "threads": torch.get_num_threads(),
    "numpy": [name for name in numpys.__cpu_dispatch__ if numpys.__cpu_features__[name]],
}))
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels are those of x86")
def test_a_pinned_child_dispatches_no_kernel_by_its_cpu() -> None:
    """A later version of a library that ignores its variable would choose kernels by the CPU again."""
    done = subprocess.run(
        [sys.executable, "-c", TOLD],
        env=pinned_floats.environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"torch": "DEFAULT", "threads": 1, "numpy": []}


def test_a_pinned_child_reports_the_error_of_a_failing_module() -> None:
    with pytest.raises(AssertionError, match=r"No module named helpers\.nothing"):
        pinned_floats.run("helpers.nothing")
