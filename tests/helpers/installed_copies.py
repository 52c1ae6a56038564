"""Packages of `examples` as pip installs them, in a folder of their own, and programs that see them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from helpers.waiting import PATIENCE

EXTENDING = Path(__file__).resolve().parents[2] / "examples" / "extending"


def install_copy(package: Path, folder: Path) -> Path:
    """Install a copy of the package, because building leaves files; return the folder that has it."""
    source, target = folder / "source", folder / "site"
    for path in (p for p in package.rglob("*") if p.suffix in (".py", ".toml", ".yaml")):
        (source / path.relative_to(package)).parent.mkdir(parents=True, exist_ok=True)
        (source / path.relative_to(package)).write_bytes(path.read_bytes())
    install = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    command = [sys.executable, "-m", "pip", *install, "--target", target, source]
    subprocess.run(command, check=True, timeout=5 * PATIENCE)
    return target


def run_rlox(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command `rlox` with the packages in `site`."""
    return _run(site, cwd, "-m", "rlox_cli.main", *arguments)


def run_python(site: Path, cwd: Path, program: str) -> str:
    """Run a program with the packages in `site`; return what it prints."""
    ran = _run(site, cwd, "-W", "ignore", "-c", textwrap.dedent(program))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def _run(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
