"""A benchmark's processes, of which one has packages that do not go with rlox: the standard library alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RLOX_THREADS"), "1")


def install_venv(name: str, *packages: str) -> Path:
    """The interpreter of a virtual environment with these, which is made where it is not."""
    venv = Path(__file__).resolve().parent / ".cache" / name
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return python


def run_measurement(interpreter: Path | None, *arguments: str | Path) -> dict[str, float]:
    """What a process prints last, in one thread; an `interpreter` of a peer's finds its packages alone."""
    command = [str(interpreter or sys.executable), *map(str, arguments)]
    env = {**os.environ, **ONE_THREAD, "HF_HUB_OFFLINE": "1"}
    if interpreter is not None:
        env.pop("PYTHONPATH", None)
    result = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tempfile.gettempdir())
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return figures
