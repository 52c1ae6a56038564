"""The counts of full-size runs, kept in `benchmarks/reliability/report.json`."""

from __future__ import annotations

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
    found = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    found[name] = {**counts, "date": date.today().isoformat(), "machine": machine}
    REPORT.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")
