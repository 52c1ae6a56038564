"""The environment variables for compiling in tests, with one target folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


def build_variables() -> dict[str, str]:
    """Return this process's variables with the tools of this Python first, and without its own modules."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**variables, "PATH": path, "CARGO_TARGET_DIR": str(TARGET)}
