"""The environment in which tests compile: one for all of them, so that what is not ours is compiled once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
FLAGS = "CARGO_ENCODED_RUSTFLAGS"


def tools() -> dict[str, str]:
    """This process's variables with the tools of this Python first, and without its own modules."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PATH": path, "CARGO_TARGET_DIR": str(TARGET)}


def cargo() -> dict[str, str]:
    """The variables under which pip's build of the wheel runs cargo: another flag, or another
    interpreter, would compile every crate again.
    """
    told = subprocess.run(
        [sys.executable, "-c", f"import os, build_backend; print(os.environ[{FLAGS!r}])"],
        env={**tools(), "PYTHONPATH": str(ROOT / "rust" / "rlox-python")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {**tools(), FLAGS: told.stdout.removesuffix("\n"), "PYO3_PYTHON": sys.executable}
