"""The counts of full-size runs, kept in `benchmarks/reliability/report.json`."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from helpers.checkout import git
from helpers.selection import FULL

from rlox_cli.runs.provenance import cpu_model

REPORT = Path(__file__).resolve().parents[2] / "benchmarks" / "reliability" / "report.json"


def record(name: str, counts: dict[str, Any]) -> None:
    """Replace the entry `name` if this is a full-size run; always print it."""
    print(f"{name}: {json.dumps(counts)}")
    if not FULL:
        return
    add(REPORT, name, dated(counts))


def dated(counts: dict[str, Any]) -> dict[str, Any]:
    """Return the counts with their date, machine and commit."""
    machine = f"{cpu_model()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    commit_info = commit(REPORT.parents[2])
    return {**counts, "date": date.today().isoformat(), "machine": machine, "commit": commit_info}


@cache
def commit(root: Path) -> dict[str, Any]:
    """Return the checked-out commit, and whether a tracked file other than the reports differs from it.

    The check leaves out the reports: the first campaign changes them, and would mark all later ones as dirty.
    """
    rest = ("--", ".", f":!{REPORT.parent.relative_to(REPORT.parents[2])}")
    changes = git(root, "status", "--porcelain", "--untracked-files=no", *rest)
    return {"id": git(root, "rev-parse", "HEAD"), "changed": changes != ""}


def add(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Replace one entry of a report; several processes may call it at once."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        entries = json.loads(path.read_text()) if path.exists() else {}
        entries[name] = entry
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(dict(sorted(entries.items())), indent=1) + "\n")
        fresh.replace(path)
    finally:
        os.close(folder)
