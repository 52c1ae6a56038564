"""A memory file system in place of a disk, for tests that do not depend on the device."""

from __future__ import annotations

import shutil
from pathlib import Path

SHM, ENOUGH = Path("/dev/shm"), 1 << 28


def memory_disk() -> Path | None:
    """Return a folder for temporary files; `None`, the usual place, if no memory disk has room."""
    return SHM if SHM.exists() and shutil.disk_usage(SHM).free >= ENOUGH else None
