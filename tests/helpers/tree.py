"""Snapshots a folder, so that a test can see whether it was changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def tree(folder: Path) -> dict[str, Any]:
    """Return the bytes and the modification time of every file of a folder but locks and logs."""
    paths = [p for p in sorted(folder.rglob("*")) if p.name not in ("log.txt", ".lock")]
    files = [p for p in paths if p.is_file()]
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}
