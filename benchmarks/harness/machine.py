"""The machine, versions and commit of a measurement."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.peers import PACKAGES
from rlox_cli.runs.provenance import GIT_VARIABLES, cpu_model

ROOT = Path(__file__).resolve().parents[2]


def describe_machine() -> dict[str, str | int | float]:
    """Return processor, cores, system, and the load at the start."""
    return {
        "cpu": cpu_model(),
        "blas": blas(),
        "cores": os.cpu_count() or 0,
        "architecture": platform.machine(),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 2),
    }


def blas() -> str:
    """Return the library that multiplies torch's matrices, and its instruction set."""
    import torch

    version = "MKL" if torch.backends.mkl.is_available() else "another BLAS"
    return f"{version}, {torch.backends.cpu.get_cpu_capability()}"


def installed_versions(original: str | None) -> dict[str, str]:
    """Return the versions of Python, of rlox and the peers in this interpreter, and of the original."""
    versions_by_name = {"python": platform.python_version()}
    for name, package in PACKAGES.items():
        if name == "original":
            continue
        try:
            versions_by_name[package.distribution] = version(package.distribution)
        except PackageNotFoundError:
            continue
    if original is not None:
        versions_by_name["original rlox"] = original
    return versions_by_name


def describe_commit(root: Path = ROOT) -> dict[str, str | bool | None]:
    """Return the id of the checked-out commit, and whether tracked files differ from it."""
    head = run_git(root, "rev-parse", "HEAD")
    status = run_git(root, "status", "--porcelain", "--untracked-files=no")
    return {"id": head, "changed": None if status is None else status != ""}


def run_git(root: Path, *arguments: str) -> str | None:
    """Return git's output, or None outside a repository."""
    env = {name: value for name, value in os.environ.items() if name not in GIT_VARIABLES}
    try:
        command = ["git", "-C", str(root), *arguments]
        result = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return result.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def utc_now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
