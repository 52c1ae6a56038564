"""Makes every case at another commit and here on this machine, and compares every bit of every array."""

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
class Place:
    """An interpreter in which a commit is installed, and that commit's checkout where it was built here."""

    python: str
    source: Path | None = None


def compare(commit: str, names: Sequence[str], python: str | None) -> int:
    """Print a table of the cases there and here; 1 if any differs or cannot be made here, else 0."""
    other, this = Place(python) if python else built(commit), Place(sys.executable)
    with TemporaryDirectory() as folder:
        there, here = Path(folder, "there"), Path(folder, "here")
        with ThreadPoolExecutor() as both:
            running = [both.submit(make_at, *one, names) for one in ((other, there), (this, here))]
            old, new = (made.result() for made in running)
        rows = dict(table(there, here, commit))
    for side, said in ((commit, old), ("here", new)):
        print(f"{side}: {said['rlox']} (torch {said['torch']}, numpy {said['numpy']})")
    if python is None and old["rlox"] == new["rlox"]:
        raise RuntimeError(f"{commit} was not compared: both sides imported {old['rlox']}")
    for name, (words, _) in rows.items():
        print(f"{name}: {words}")
    for side, said in ((f"at {commit}", old), ("here", new)):
        for name, reason in said["failed"].items():
            print(f"{name}: cannot be made {side}: {reason}")
    compared = [equal for _, equal in rows.values() if equal is not None]
    print(f"{sum(compared)} of {len(compared)} files equal in every bit")
    return 0 if compared and all(compared) and not new["failed"] else 1


def table(there: Path, here: Path, commit: str) -> Iterator[tuple[str, tuple[str, bool | None]]]:
    """Each file, how it compares in words, and whether it is equal: `None` where one side lacks it."""
    sides = [{p.relative_to(out).as_posix() for p in out.glob("*/*.npz")} for out in (there, here)]
    for name in sorted(sides[0] | sides[1]):
        if name not in sides[0] & sides[1]:
            yield name, (f"only {'here' if name in sides[1] else 'at ' + commit}", None)
            continue
        found = dict(changes(_arrays(there / name), _arrays(here / name)))
        yield name, (in_words(found), all(change is None for change in found.values()))


def _arrays(path: Path) -> Arrays:
    return {key: value for key, value in read(path).items() if key != "machine"}  # of older makers


def make_at(place: Place, out: Path, names: Sequence[str]) -> dict[str, Any]:
    """Make cases as they are defined here; those that the commit does not take, by its own maker."""
    environ = {**os.environ, **ONE_THREAD}
    out.mkdir()
    try:
        said = in_child(place.python, out, names, environ, TESTS)
    except subprocess.CalledProcessError:
        if place.source is None:
            raise
        why = "that commit lacks what the cases here import"
        said = {"failed": dict.fromkeys(select(names), why), **_packages(place.python, environ)}
    if place.source and said["failed"]:
        own = _own_maker(place.python, place.source, out, list(said["failed"]), environ)
        said["failed"] = {name: why for name, why in said["failed"].items() if name not in own}
    return said


def _packages(python: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Where the interpreter has rlox, and the versions that last bits depend on."""
    script = (
        "import json, os, numpy, rlox, torch; print(json.dumps({'rlox': os.path.dirname(os.path.realpath("
        "rlox.__file__)), 'torch': torch.__version__, 'numpy': numpy.__version__}))"
    )
    told: dict[str, str] = json.loads(_run(python, "-P", "-c", script, **environ))
    return told


def _own_maker(
    python: str, source: Path, out: Path, names: Sequence[str], environ: Mapping[str, str]
) -> set[str]:
    """Make cases as their commit defined them; the names of those that it has."""
    own = out.with_name(f"{out.name} by its own maker")
    own.mkdir()
    tests = source / "tests"
    if (tests / "golden" / "__main__.py").exists():
        try:
            in_child(python, own, names, environ, tests)
        except subprocess.CalledProcessError:  # it refuses all for one that it does not know
            for name in names:
                with suppress(subprocess.CalledProcessError):
                    in_child(python, own, [name], environ, tests)
    else:  # until 0.1.0 of 2026-11-28 runs had a script of their own, which wrote beside itself
        runs = sorted({n.partition("/")[2].removesuffix(".after") for n in names if "runs/" in n})
        paths = {**environ, "PYTHONPATH": str(tests)}
        script = tests / "golden" / "runs" / "make.py"
        for run in runs:
            line = [python, "-P", str(script), run]
            if subprocess.run(line, cwd=source, env=paths, capture_output=True).returncode == 0:
                for file in (f"{run}.npz", f"{run}.after.npz"):
                    (own / "runs").mkdir(exist_ok=True)
                    shutil.copy(script.parent / file, own / "runs" / file)
    found = {p.relative_to(own).as_posix().removesuffix(".npz") for p in own.glob("*/*.npz")}
    for name in found.intersection(names):
        (out / name).parent.mkdir(exist_ok=True)
        shutil.copy(own / f"{name}.npz", out / f"{name}.npz")
    return found


def built(commit: str) -> Place:
    """An environment with that commit, built once: a clone of this repository, its `constraints.txt`."""
    sha = _run("git", "-C", str(ROOT), "rev-parse", "--verify", f"{commit}^{{commit}}").strip()
    home = CACHE / sha
    python, source, done = home / "venv" / "bin" / "python", home / "source", home / "complete"
    if not done.exists():
        print(f"building {sha} in {home}", file=sys.stderr, flush=True)
        shutil.rmtree(home, ignore_errors=True)  # of a build that was stopped
        home.mkdir(parents=True)
        _run("git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(source))
        _run("git", "-C", str(source), "checkout", "--quiet", "--detach", sha)
        venv.create(home / "venv", with_pip=True)
        pins = ["-c", str(source / "constraints.txt")]
        # One folder for what cargo compiles: a later commit compiles what changed.
        target = {"CARGO_TARGET_DIR": str(CACHE / "target")}
        _run(str(python), "-m", "pip", "install", "-q", *pins, str(source), **target)
        done.touch()
    return Place(str(python), source)


def _run(*line: str, **environ: str) -> str:
    done = subprocess.run(
        line, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout
