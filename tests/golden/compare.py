"""Makes every case at another commit and at this one, on this machine, and compares the arrays bit by bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from golden.cases import select
from golden.files import HERE, ROOT, Arrays, changes, in_words, read
from golden.making import in_child

CACHE = ROOT / ".cache" / "golden"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
TESTS = HERE.parent


@dataclass(frozen=True)
class Installation:
    """An interpreter in which a commit is installed, and that commit's checkout if it was built here."""

    python: str
    source: Path | None = None


def compare(commit: str, names: Sequence[str], python: str | None) -> int:
    """Print a comparison of each case; return 1 if any differs or cannot be made here, else 0."""
    other_installation, this_installation = (
        Installation(python) if python else build_installation(commit),
        Installation(sys.executable),
    )
    with TemporaryDirectory() as folder:
        other_folder, this_folder = Path(folder, "there"), Path(folder, "here")
        with ThreadPoolExecutor() as executor:
            futures = [
                executor.submit(make_cases, *arguments, names)
                for arguments in (
                    (other_installation, other_folder),
                    (this_installation, this_folder),
                )
            ]
            other_result, this_result = (future.result() for future in futures)
        rows = dict(compare_files(other_folder, this_folder, commit))
    for side, side_result in ((commit, other_result), ("here", this_result)):
        print(f"{side}: {side_result['rlox']} (torch {side_result['torch']}, numpy {side_result['numpy']})")
    if python is None and other_result["rlox"] == this_result["rlox"]:
        raise RuntimeError(f"{commit} was not compared: both sides imported {other_result['rlox']}")
    for name, (comparison, _) in rows.items():
        print(f"{name}: {comparison}")
    for side, side_result in ((f"at {commit}", other_result), ("here", this_result)):
        for name, reason in side_result["failed"].items():
            print(f"{name}: cannot be made {side}: {reason}")
    equal_flags = [equal for _, equal in rows.values() if equal is not None]
    print(f"{sum(equal_flags)} of {len(equal_flags)} files equal in every bit")
    return 0 if equal_flags and all(equal_flags) and not this_result["failed"] else 1


def compare_files(
    other_folder: Path, this_folder: Path, commit: str
) -> Iterator[tuple[str, tuple[str, bool | None]]]:
    """Yield each file, its comparison in words, and whether it is equal: `None` if one side lacks it."""
    sides = [
        {p.relative_to(out).as_posix() for p in out.glob("*/*.npz")} for out in (other_folder, this_folder)
    ]
    for name in sorted(sides[0] | sides[1]):
        if name not in sides[0] & sides[1]:
            yield name, (f"only {'here' if name in sides[1] else 'at ' + commit}", None)
            continue
        array_changes = dict(changes(_arrays(other_folder / name), _arrays(this_folder / name)))
        yield (
            name,
            (in_words(array_changes), all(change is None for change in array_changes.values())),
        )


def _arrays(path: Path) -> Arrays:
    # Older makers wrote the key "machine".
    return {key: value for key, value in read(path).items() if key != "machine"}


def make_cases(installation: Installation, out: Path, names: Sequence[str]) -> dict[str, Any]:
    """Make cases with the definitions here; if the commit cannot make one, use its own maker."""
    environ = {**os.environ, **ONE_THREAD}
    out.mkdir()
    try:
        report = in_child(installation.python, out, names, environ, TESTS)
    except subprocess.CalledProcessError:
        if installation.source is None:
            raise
        reason = "that commit lacks what the cases here import"
        report = {
            "failed": dict.fromkeys(select(names), reason),
            **_packages(installation.python, environ),
        }
    if installation.source and report["failed"]:
        own_names = _make_by_own_maker(
            installation.python, installation.source, out, list(report["failed"]), environ
        )
        report["failed"] = {
            name: reason for name, reason in report["failed"].items() if name not in own_names
        }
    return report


def _packages(python: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the folder of the interpreter's rlox, and the versions that last bits depend on."""
    script = (
        "import json, os, numpy, rlox, torch; print(json.dumps({'rlox': os.path.dirname(os.path.realpath("
        "rlox.__file__)), 'torch': torch.__version__, 'numpy': numpy.__version__}))"
    )
    versions: dict[str, str] = json.loads(_run(python, "-P", "-c", script, **environ))
    return versions


def _make_by_own_maker(
    python: str, source: Path, out: Path, names: Sequence[str], environ: Mapping[str, str]
) -> set[str]:
    """Make cases with the definitions of their commit; return the names of the cases that it has."""
    own_out = out.with_name(f"{out.name} by its own maker")
    own_out.mkdir()
    tests = source / "tests"
    if (tests / "golden" / "__main__.py").exists():
        try:
            in_child(python, own_out, names, environ, tests)
        except subprocess.CalledProcessError:  # an unknown name makes it refuse all names
            for name in names:
                with suppress(subprocess.CalledProcessError):
                    in_child(python, own_out, [name], environ, tests)
    else:  # until 0.1.0 of 2026-11-28 runs had their own script, which wrote into its folder
        runs = sorted({n.partition("/")[2].removesuffix(".after") for n in names if "runs/" in n})
        paths = {**environ, "PYTHONPATH": str(tests)}
        script = tests / "golden" / "runs" / "make.py"
        for run in runs:
            line = [python, "-P", str(script), run]
            if subprocess.run(line, cwd=source, env=paths, capture_output=True).returncode == 0:
                for file in (f"{run}.npz", f"{run}.after.npz"):
                    (own_out / "runs").mkdir(exist_ok=True)
                    shutil.copy(script.parent / file, own_out / "runs" / file)
    made_names = {p.relative_to(own_out).as_posix().removesuffix(".npz") for p in own_out.glob("*/*.npz")}
    for name in made_names.intersection(names):
        (out / name).parent.mkdir(exist_ok=True)
        shutil.copy(own_out / f"{name}.npz", out / f"{name}.npz")
    return made_names


def build_installation(commit: str) -> Installation:
    """Build an environment with that commit, once: a clone of this repository, its `constraints.txt`."""
    sha = _run("git", "-C", str(ROOT), "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    build_folder = CACHE / sha
    python, source, complete_marker = (
        build_folder / "venv" / "bin" / "python",
        build_folder / "source",
        build_folder / "complete",
    )
    if not complete_marker.exists():
        print(f"building {sha} in {build_folder}", file=sys.stderr, flush=True)
        shutil.rmtree(build_folder, ignore_errors=True)  # left over from a stopped build
        build_folder.mkdir(parents=True)
        _run("git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(source))
        _run("git", "-C", str(source), "checkout", "--quiet", "--detach", sha)
        venv.create(build_folder / "venv", with_pip=True)
        pins = ["-c", str(source / "constraints.txt")]
        # All commits share one folder for cargo's output, so a later commit compiles only changed code.
        target = {"CARGO_TARGET_DIR": str(CACHE / "target")}
        _run(str(python), "-m", "pip", "install", "-q", *pins, str(source), **target)
        complete_marker.touch()
    return Installation(str(python), source)


def _run(*line: str, **environ: str) -> str:
    process = subprocess.run(
        line, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True, check=True
    )
    return process.stdout
