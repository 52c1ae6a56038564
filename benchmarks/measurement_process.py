"""Run a benchmark's processes; one of them may have packages that conflict with rlox.

Only the standard library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RLOX_THREADS"), "1")


def install_venv(name: str, *packages: str) -> Path:
    """Return the interpreter of a virtual environment with these packages; make it if it does not exist."""
    venv = Path(__file__).resolve().parent / ".cache" / name
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return python


def run_measurement(interpreter: Path | None, *arguments: str | Path) -> dict[str, float]:
    """Run a process with one thread and return the last line that it prints.

    A peer's `interpreter` finds only its own packages.
    """
    command = [str(interpreter or sys.executable), *map(str, arguments)]
    env = {**os.environ, **ONE_THREAD, "HF_HUB_OFFLINE": "1"}
    if interpreter is not None:
        env.pop("PYTHONPATH", None)
    result = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tempfile.gettempdir())
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return figures
