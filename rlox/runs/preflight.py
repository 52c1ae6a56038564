"""Checks before the first step: does the run fit into memory and onto the disk?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from rlox.configs import RunConfig
from rlox.errors import ConfigError, StorageError

__all__ = [
    "available_memory",
    "memory_limit",
    "require_disk",
    "require_memory",
    "require_networks",
    "require_steps_left",
]

# Numbers kept per parameter: value and gradient, each in the module and in the flat vector; two moments.
COPIES_PER_PARAMETER = 6

# cgroup v2, then v1: (limit, usage)
_CGROUPS = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def require_steps_left(config: RunConfig, steps: int) -> None:
    """Raise `ConfigError` if the run's total does not exceed the `steps` that it has made already."""
    if steps >= config.rounded_steps:
        raise ConfigError(
            f"the run is at {steps} steps already, and totals count from its start: "
            f"total_steps={config.total_steps} must be larger, "
            f"{steps + config.total_steps} for {config.total_steps} more"
        )


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes this process may still take: the machine's, or its control group's if less."""
    amounts = [_meminfo(root / "proc/meminfo", "MemAvailable", "SC_AVPHYS_PAGES")]
    for limit_file, usage_file in _CGROUPS:
        limit, usage = _read_number(root / limit_file), _read_number(root / usage_file)
        if limit is not None and usage is not None:
            amounts.append(max(limit - usage, 0))
    known_amounts = [n for n in amounts if n is not None]
    return min(known_amounts) if known_amounts else None


def memory_limit(root: Path = Path("/")) -> int | None:
    """Return the total memory of this process: the machine's, or its control group's if less."""
    amounts = [_meminfo(root / "proc/meminfo", "MemTotal", "SC_PHYS_PAGES")]
    amounts += [_read_number(root / limit_file) for limit_file, _ in _CGROUPS]
    known_amounts = [n for n in amounts if n is not None]
    return min(known_amounts) if known_amounts else None


def require_memory(required_bytes: int, purpose: str, settings: str, root: Path = Path("/")) -> None:
    """Raise `ConfigError` if `required_bytes` for `purpose` exceed the available memory."""
    available_bytes = available_memory(root)
    if available_bytes is not None and required_bytes > available_bytes:
        raise ConfigError(
            f"{purpose} needs {_format_size(required_bytes)} of memory, but "
            f"{_format_size(available_bytes)} are available; lower {settings}"
        )


def require_networks(
    *networks: Sequence[int], copies: int = COPIES_PER_PARAMETER, extra_parameters: int = 0
) -> None:
    """Raise `ConfigError` if networks will not fit into memory, before they are made.

    Each network is given by the widths of its layers, input and output included. `copies` float32 numbers are
    kept per parameter; `extra_parameters` counts those besides the layers.
    """
    count = sum((into + 1) * out for widths in networks for into, out in pairwise(widths)) + extra_parameters
    require_memory(4 * copies * count, f"learning networks of {count:,} parameters", "algo.net_arch")


def require_disk(folder: Path, required_bytes: int) -> None:
    """Raise `StorageError` if the disk of `folder` has fewer than `required_bytes` left."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StorageError(f"cannot write to {folder}: {error.strerror}") from error
    if required_bytes > free:
        raise StorageError(
            f"{folder} has {_format_size(free)} left, but the run needs {_format_size(required_bytes)} for "
            "its checkpoints; free some space or choose another place with run_root=FOLDER"
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


def _read_number(path: Path) -> int | None:
    """Return the number in a control file; `None` if there is none (also for `max`: no limit)."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _format_size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.1f} {unit}" if unit != "B" else f"{count} B"
        value /= 1024
    return f"{value:.1f} TiB"
