"""Waits whose time limits only a hang exceeds: they are far longer than a busy machine needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LOADED = os.environ.get("RLOX_LOADED") == "1"
"""Whether other processes share the machine: then every time limit is five times as long."""

PATIENCE = 60.0 * (5 if LOADED else 1)
"""Seconds after which a wait counts as hung."""


def until(condition: Callable[[], T], description: str, patience: float = PATIENCE) -> T:
    """Call `condition` every 10 ms until its result is true, and return the result.

    After `patience` seconds it raises `AssertionError` with `description`.
    """
    deadline = time.monotonic() + patience
    while not (result := condition()):
        assert time.monotonic() < deadline, f"after {patience:.0f} s there is still no {description}"
        time.sleep(0.01)
    return result
