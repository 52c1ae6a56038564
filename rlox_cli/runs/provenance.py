"""`provenance.json`: code, versions and machine, so that a result can be traced to its origin."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlox import plugins
from rlox.configs import RunConfig
from rlox.configs.secrets import mask_command
from rlox.distributed.group import process_count
from rlox.extras import DISTRIBUTION

PACKAGES = ("torch", "numpy", "gymnasium", "hydra-core", "omegaconf", "safetensors")
ENV_PACKAGES = (
    "box2d",
    "mujoco",
    "ale-py",
    "envpool",
    "minigrid",
)  # packages of environments; most machines lack some
CPU_FIELDS = {"cpu family": "family", "model": "model", "stepping": "stepping"}  # x86 only
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RLOX_THREADS",
    "RAYON_NUM_THREADS",
)

GIT_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
)


def collect(config: RunConfig, command: Sequence[str]) -> dict[str, Any]:
    """Return the provenance: everything but the configuration itself."""
    return {
        "schema_version": 1,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(mask_command(command)),
        "git": git_state(Path.cwd()),
        "packages": packages(),
        "wheel": _extension_hash(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": {"model": cpu_model(), "cores": cores()},
        "gpu": _gpu(),
        "threads": {
            "torch": config.torch_threads,
            "rlox": config.threads,
            **{name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        },
        **({"processes": process_count()} if process_count() > 1 else {}),
        "seeds": {"run": config.seed, "eval": config.eval.seed},
    }


def packages() -> dict[str, str | None]:
    """Return the versions of rlox and its packages.

    Packages of environments are listed if installed, plugins if used.
    """
    env_versions = {name: _version(name) for name in ENV_PACKAGES}
    installed = {name: version for name, version in env_versions.items() if version is not None}
    rlox_version = {"rlox": _version(DISTRIBUTION)}
    return (
        rlox_version
        | {name: _version(name) for name in PACKAGES}
        | installed
        | plugins.loaded_plugin_versions()
    )


def cores() -> int:
    """Return the number of CPUs that this process may use; all CPUs if the platform does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the commit of the repository around `folder` and a hash of uncommitted changes; else `None`."""
    inside = _run_git(folder, "rev-parse", "--is-inside-work-tree")
    if inside is None:
        return None
    sha = _run_git(folder, "rev-parse", "--verify", "-q", "HEAD")
    diff = _run_git(folder, "diff", "--binary", "HEAD") if sha else None
    # Only the names of untracked files count: their content can be large, and a run's own folder may be among
    # them.
    status = _run_git(folder, "status", "--porcelain", "--untracked-files=normal") or b""
    dirty = bool(status.strip())
    digest = hashlib.sha256((diff or b"") + status).hexdigest() if dirty else None
    return {"sha": sha.decode().strip() if sha else None, "dirty": dirty, "diff_sha256": digest}


def _run_git(folder: Path, *arguments: str) -> bytes | None:
    # Git hooks set variables that may name another repository than the folder's.
    env = {name: value for name, value in os.environ.items() if name not in GIT_VARIABLES}
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), *arguments], env=env, capture_output=True, timeout=10, check=False
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _extension_hash() -> dict[str, str] | None:
    """Return file name and hash of the compiled extension: the version alone does not tell builds apart."""
    module = sys.modules.get("rlox._core")
    path = Path(getattr(module, "__file__", None) or "")
    if not path.is_file():
        return None
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the processor's name and exact model from the kernel, else what Python knows.

    One name, such as AMD EPYC, covers several models, on which sums may differ in the last bit.
    """
    try:
        lines = cpuinfo.read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        lines = []
    fields = {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    if "model name" not in fields:
        return platform.processor() or platform.machine()
    details = [f"{name} {fields[key]}" for key, name in CPU_FIELDS.items() if key in fields]
    return fields["model name"] + (f" ({', '.join(details)})" if details else "")


def _gpu() -> str | None:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return None
    return str(torch.cuda.get_device_name())
