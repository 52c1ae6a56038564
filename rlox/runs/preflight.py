"""Before the first step: does the run fit into the memory and onto the disk that there are?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rlox.errors import ConfigError, StorageError

__all__ = [
    "available_memory",
    "memory_limit",
    "require_disk",
    "require_memory",
    "require_networks",
]

# Numbers that learning keeps of a parameter: itself, as it is made and in the flat vector, its gradient
# in both places, two moments.
LEARNED = 6

# cgroup v2, then v1: (limit, usage)
_CGROUPS = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes this process may still take: the machine's, or its control group's if that is less."""
    found = [_meminfo(root / "proc/meminfo", "MemAvailable", "SC_AVPHYS_PAGES")]
    for limit_file, usage_file in _CGROUPS:
        limit, usage = _number(root / limit_file), _number(root / usage_file)
        if limit is not None and usage is not None:
            found.append(max(limit - usage, 0))
    known = [n for n in found if n is not None]
    return min(known) if known else None


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this process may have at all: the machine's, or less in a control group."""
    found = [_meminfo(root / "proc/meminfo", "MemTotal", "SC_PHYS_PAGES")]
    found += [_number(root / limit_file) for limit_file, _ in _CGROUPS]
    known = [n for n in found if n is not None]
    return min(known) if known else None


def require_memory(need: int, what: str, lower: str, root: Path = Path("/")) -> None:
    """Raise `ConfigError` if `need` bytes for `what` exceed what is available."""
    have = available_memory(root)
    if have is not None and need > have:
        raise ConfigError(
            f"{what} needs {_size(need)} of memory, {_size(have)} are available; lower {lower}"
        )


def require_networks(*networks: Sequence[int], copies: int = LEARNED, more: int = 0) -> None:
    """Raise `ConfigError` if networks will not fit, before they are made.

    Of each the widths of its layers, the input's and the output's too; of every parameter `copies`
    float32 numbers are kept, of which there are `more` than in these layers.
    """
    count = sum((into + 1) * out for widths in networks for into, out in pairwise(widths)) + more
    require_memory(
        4 * copies * count, f"learning networks of {count:,} parameters", "algo.net_arch"
    )


def require_disk(folder: Path, need: int) -> None:
    """Raise `StorageError` if the disk of `folder` has fewer than `need` bytes left."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}") from error
    if need > free:
        raise StorageError(
            f"{folder} has {_size(free)} left, the run needs {_size(need)} for its checkpoints; "
            "free some or choose another place with run_root=FOLDER"
        )


def _meminfo(path: Path, field: str, pages: str) -> int | None:
    try:
        for line in path.read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages)
    except (ValueError, OSError):
        return None


def _number(path: Path) -> int | None:
    """The number in a control file; `None` where there is none (also `max`: no limit)."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.1f} {unit}" if unit != "B" else f"{count} B"
        value /= 1024
    return f"{value:.1f} TiB"
