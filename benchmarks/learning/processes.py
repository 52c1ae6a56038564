"""Run the processes of a campaign, with one thread each; a failed one is reported with its error output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]  # PyYAML, through omegaconf

from rlox_cli.runs.provenance import git_state

# `-P` keeps the working directory off the path. So a clone uses the installed rlox, and not its sources,
# which have no compiled part.
RLOX = ("-P", "-m", "rlox_cli.main")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}


def run_python(*arguments: str | Path, interpreter: Path | None = None) -> str:
    """Run this interpreter with these arguments and return its output; it finds the environments in this
    folder.

    Another `interpreter` finds only its own packages.
    """
    command = [str(interpreter or sys.executable), *map(str, arguments)]
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(path)}
    if interpreter is not None:
        del env["PYTHONPATH"]
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stderr}")
    return result.stdout


def commit_entry() -> dict[str, str]:
    """Return the checkout's commit as an entry of a result; empty outside a repository."""
    state = git_state(Path(__file__).parent)
    return {} if state is None or state["sha"] is None else {"commit": state["sha"]}


def train(root: Path, *overrides: str) -> Path:
    """Run `rlox train exp=classic_control ...` below the folder `root`; return the run folder."""
    return train_once(root, "exp=classic_control", f"run_root={root}", *overrides)


def train_once(root: Path, *overrides: str) -> Path:
    """Run `rlox train` with overrides that put it below the folder `root`; return the run folder.

    A finished run with the same overrides is not repeated. A stopped one is resumed from its last checkpoint,
    which gives the same result as an uninterrupted run.
    """
    existing_runs = _find_runs(root, overrides)
    for run in filter(_is_done, existing_runs):
        return run
    resumable_runs = [run for run in existing_runs if (run / "checkpoints" / "last").exists()]
    run_python(*RLOX, "train", *([f"resume={resumable_runs[-1]}"] if resumable_runs else overrides))
    return max(root.glob("*/*/*/result.json"), key=lambda path: path.stat().st_mtime_ns).parent


def _find_runs(root: Path, overrides: Sequence[str]) -> list[Path]:
    """Return the run folders below `root` with these overrides, the oldest first."""
    overrides_by_file = {
        run: yaml.safe_load(run.read_text()) for run in root.glob("*/*/*/.hydra/overrides.yaml")
    }
    unquoted = [override.replace("'", "") for override in overrides]
    matching_files = (
        run
        for run, saved_overrides in overrides_by_file.items()
        if [o.replace("'", "") for o in saved_overrides] == unquoted
    )
    return sorted(run.parent.parent for run in matching_files)


def _is_done(run: Path) -> bool:
    result = run / "result.json"
    return result.exists() and json.loads(result.read_text())["status"] == "done"
