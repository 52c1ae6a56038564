"""Makes golden cases in a child process, and copies changed ones into the folder of golden files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from helpers import pinned_floats
from helpers.checkout import git

import golden.files as golden
from golden.files import HERE, changes, entry, in_words, read, write

MADE = "made.json"
"""The name of the file in which a child describes itself and the cases that it could not make."""
PRODUCT = ("rlox", "rlox_cli", "conf", "rust", "Cargo.lock")


def trace(out: Path, names: Sequence[str]) -> None:
    """Make cases in this process and write their arrays and folders below `out`."""
    import rlox._core
    from golden.cases import CASES, select

    failed: dict[str, str] = {}
    about = about_here()
    require_built(Path(rlox._core.__file__), Path(about["rlox"]).parent)
    for name in select(names):
        print(name, file=sys.stderr, flush=True)
        try:
            for path, arrays in CASES[name](out).items():
                write(out / f"{path}.npz", arrays)
        except Exception as error:  # an old commit may not know the case
            failed[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    said = {"failed": failed, **about}
    (out / MADE).write_text(json.dumps(said, indent=1), encoding="utf-8")


def require_built(core: Path, checkout: Path) -> None:
    """Exit unless the extension is newer than the Rust code of its checkout, if the checkout is beside it."""
    crates = ("rlox-core", "rlox-nn", "rlox-python")  # the extension is built from these
    sources = (path for crate in crates for path in checkout.glob(f"rust/{crate}/src/**/*.rs"))
    for source in (*sources, checkout / "Cargo.lock"):
        if source.exists() and source.stat().st_mtime > core.stat().st_mtime:
            sys.exit(f"{core.name} was built before {source.name} changed: pip install -e . first")


def about_here() -> dict[str, Any]:
    """Return the package that this process imports, and the versions that last bits depend on."""
    import numpy
    import torch

    import rlox
    from rlox_cli.runs.provenance import cpu_model

    return {
        "rlox": str(Path(rlox.__file__).resolve().parent),
        "cpu": cpu_model(),
        "pinned": all(os.environ.get(key) == value for key, value in pinned_floats.PINS.items()),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def in_child(
    python: str, out: Path, names: Sequence[str], environ: Mapping[str, str], tests: Path
) -> dict[str, Any]:
    """Make cases below `out` with this interpreter and the code in `tests`; return the child's report.

    The child uses the installed `rlox` of the interpreter: `-P` keeps the working directory out of its path.
    """
    line = [python, "-P", "-m", "golden", "trace", str(out), *names]
    paths = {**environ, "PYTHONPATH": str(tests)}
    subprocess.run(line, cwd=tests.parent, env=paths, check=True)
    said: dict[str, Any] = json.loads((out / MADE).read_text(encoding="utf-8"))
    return said


def make(names: Sequence[str]) -> int:
    """Make cases with pinned kernels, print every array's largest change, and write the changed ones.

    An existing saved folder stays as its version wrote it, because the present version must read it.
    """
    with TemporaryDirectory() as place:
        said = in_child(sys.executable, Path(place), names, pinned_floats.environment(), HERE.parent)
        written = install(Path(place))
    index = golden.load_index()
    key = record(index, said)
    files = golden.golden_files()
    index["files"] = {name: row for name, row in index["files"].items() if name in files}
    index["files"] |= {name: entry(name, key) for name in written}
    used = {row["made"] for row in index["files"].values()}
    index["made"] = {key: about for key, about in index["made"].items() if key in used}
    golden.save_index(index)
    for case, reason in said["failed"].items():
        print(f"{case}: cannot be made: {reason}")
    print(f"{len(written)} files written")
    return 1 if said["failed"] else 0


def install(place: Path) -> list[str]:
    """Copy changed arrays and missing folders from `place`; return the written files."""
    written: list[str] = []
    for path in sorted(place.glob("*/*.npz")):
        name = path.relative_to(place).as_posix()
        before = read(HERE / name) if (HERE / name).exists() else {}
        after = read(path)
        found = dict(changes(before, after))
        print(f"{name}: {in_words(found)}")
        for key, change in found.items():
            print(f"  {key}: {'equal' if change is None else change}")
        if any(change is not None for change in found.values()):
            write(HERE / name, after)
            written.append(name)
    for folder in sorted(p for p in place.glob("*/*") if p.is_dir()):
        below = folder.relative_to(place)
        if not (HERE / below).exists():
            shutil.copytree(folder, HERE / below, symlinks=True)
            written += [(below / name).as_posix() for name in golden.golden_files(folder)]
    return written


def record(index: dict[str, Any], said: Mapping[str, Any]) -> str:
    """Add the description of the checkout's package and this machine to `index["made"]`; return its key."""
    checkout = Path(said["rlox"]).parent
    sha = git(checkout, "rev-parse", "--short=8", "HEAD")
    changed = bool(git(checkout, "status", "--porcelain", "--", *PRODUCT))
    about = {
        "commit": sha + (" and what was not committed" if changed else ""),
        "date": datetime.now(UTC).date().isoformat(),
        **{key: said[key] for key in ("cpu", "pinned", "torch", "numpy")},
    }
    key = f"{about['date']} {sha}" + (" pinned" if said["pinned"] else "")
    while index["made"].setdefault(key, about) != about:  # for example on another CPU
        key += "'"
    return key
