"""Memory that pretends to be a disk, for tests that are not about the device."""

from __future__ import annotations

import shutil
from pathlib import Path

SHM, ENOUGH = Path("/dev/shm"), 1 << 28


def memory_disk() -> Path | None:
    """A folder for temporary ones; `None`, the usual place, where there is none with room."""
    return SHM if SHM.exists() and shutil.disk_usage(SHM).free >= ENOUGH else None
