"""The counts of full-size runs, kept in `benchmarks/reliability/report.json`."""

from __future__ import annotations

import fcntl
import json
import os
import platform
from datetime import date
from pathlib import Path
from typing import Any

FULL = os.environ.get("RLOX_FULL") == "1"
REPORT = Path(__file__).resolve().parents[2] / "benchmarks" / "reliability" / "report.json"


def record(name: str, counts: dict[str, Any]) -> None:
    """Replace the entry `name`, if this is a full-size run; always print it."""
    print(f"{name}: {json.dumps(counts)}")
    if not FULL:
        return
    add(REPORT, name, dated(counts))


def dated(counts: dict[str, Any]) -> dict[str, Any]:
    """Counts with when and on what they were counted."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return {**counts, "date": date.today().isoformat(), "machine": machine}


def add(path: Path, name: str, entry: dict[str, Any]) -> None:
    """Replace one entry of a report; several processes may do so at once."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        found = json.loads(path.read_text()) if path.exists() else {}
        found[name] = entry
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
        fresh.replace(path)
    finally:
        os.close(folder)
