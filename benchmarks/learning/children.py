"""The processes of a campaign: one thread each, and what one that failed said is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# `-P` keeps the working directory off the path: in a clone, the installed rlox is meant and not the
# sources there, which have no compiled part.
RLOX = ("-P", "-m", "rlox_cli.main")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}


def python(*arguments: str | Path, interpreter: Path | None = None) -> str:
    """What this interpreter printed with these arguments; it finds the environments beside this file.

    Another `interpreter` has packages of its own, and finds no others.
    """
    command = [str(interpreter or sys.executable), *map(str, arguments)]
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path)}
    if interpreter is not None:
        del env["PYTHONPATH"]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def train(root: Path, *overrides: str) -> Path:
    """`rlox train exp=classic_control ...` below the folder `root`; the run folder."""
    python(*RLOX, "train", "exp=classic_control", f"run_root={root}", *overrides)
    return next(root.glob("*/*/*/result.json")).parent
