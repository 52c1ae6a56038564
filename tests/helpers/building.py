"""The environment in which tests compile: one target folder, one set of flags."""

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
    """The variables under which pip's build of the wheel runs cargo, with the same flags and the same
    interpreter. Crates below a plugin are compiled for it all the same: it links them as rlibs, which
    keep object code beside the bitcode that the wheel's link-time optimisation takes.
    """
    told = subprocess.run(
        [sys.executable, "-c", f"import os, build_backend; print(os.environ[{FLAGS!r}])"],
        env={**tools(), "PYTHONPATH": str(ROOT / "rust" / "rlox-python")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {**tools(), FLAGS: told.stdout.removesuffix("\n"), "PYO3_PYTHON": sys.executable}
