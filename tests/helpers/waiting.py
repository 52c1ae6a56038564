"""Waits that only a hang ends: their patience is far beyond what a busy machine needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOADED = os.environ.get("RLOX_LOADED") == "1"
"""Whether other processes are known to share the machine: every patience is five times as long."""

PATIENCE = 60.0 * (5 if LOADED else 1)
"""Seconds after which a wait is taken for a hang."""


def until(condition: Callable[[], T], description: str, patience: float = PATIENCE) -> T:
    """Ask `condition` every 10 ms until its answer is true, and return the answer.

    Raises `AssertionError` that names `description` was waited for after `patience` seconds.
    """
    deadline = time.monotonic() + patience
    while not (result := condition()):
        assert time.monotonic() < deadline, f"after {patience:.0f} s there is still no {description}"
        time.sleep(0.01)
    return result
