"""Mutants of the code that the tests should catch.

    python tests/mutants.py --seed 1 --count 20 rlox/training rlox/runs rlox/sources rlox/algorithms

draws places by the seed, changes one at a time in a copy of the tree, and runs the test files that import the
changed file, directly or through a package whose `__init__` imports it. If there is no such test, or all of
them pass, it runs the test files that import it through another module. With `--nightly` a mutant that
survives the tests of CI meets the slow tests of these files too. A mutant is caught when a test fails that
passes on the unchanged code, or when the tests do not end in `--timeout` seconds. The script prints surviving
mutants with their change; a reader must decide whether one is equivalent to the code. `--record FILE` writes
the counts and the survivors as JSON. Exit code 1 if fewer than `--least` were caught, 2 for wrong use.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))

from helpers.mutation import Site, diff, draw, imports  # noqa: E402
from helpers.selection import DEFAULT_SECONDS, SECONDS_FILE  # noqa: E402

CODE = ("rlox", "rlox_cli")
CAUGHT_PREFIX = "caught by "  # followed by the name of the test
NO_TESTS = 5  # pytest's exit code if no test was selected
NOT_INHERITED = ("RLOX_NIGHTLY", "RLOX_FULL", "PYTEST_ADDOPTS")  # they would select other tests
RINGS = 2  # groups of tests, by the distance of their imports from the changed file
QUICK = 10.0  # seconds of a quick test file
# Tests do not need these parts of the tree: hidden folders, environments, build output.
IGNORE_PATTERNS = shutil.ignore_patterns(".*", "__pycache__", "*.pyc", "target")
# Tests in these folders take minutes to learn or build, or read the tree itself.
EXCLUDED_FOLDERS = {"learning", "packaging", "meta"}


@dataclass(frozen=True)
class Verdict:
    """The outcome of a mutant."""

    site: Site
    tests: int  # number of test files that were run
    outcome: str  # "caught by NAME", "caught by the clock", "survived", "survived: no test imports it"
    nightly: bool = False  # whether the nightly tests decided

    @property
    def is_caught(self) -> bool:
        return self.outcome.startswith("caught")


def module_of(path: Path) -> str:
    """Return `rlox/runs/journal.py` as `rlox.runs.journal`."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers(root: Path, changed: Path) -> list[list[Path]]:
    """Return lists of test files, the nearest importers of the changed module first.

    The first list has the tests that import the module or a package that re-exports it. The next has the
    tests that import a module that imports it, and so on until one has tests. If no import leads to the
    module, because code names it in a text, the list has the tests that contain its name. Each list begins
    with the quick tests, because one of them catches most mutants.
    """
    modules = {module_of(p.relative_to(root)): p for name in CODE for p in (root / name).rglob("*.py")}
    targets, rings, visited = {module_of(changed)}, list[list[Path]](), set[Path]()
    while len(rings) < RINGS:
        targets |= {package for module in targets for package in facades(root, module)}
        if importing := [file for file in direct_importers(root, targets) if file not in visited]:
            rings.append(importing)
            visited.update(importing)
        more_modules = {m for m, path in modules.items() if names_of(path, m) & targets} | targets
        if more_modules == targets:
            break
        targets = more_modules
    if not rings and (text_matches := direct_importers(root, set(), re.compile(rf"\b{changed.stem}\b"))):
        rings.append(text_matches)
    seconds = json.loads(SECONDS_FILE.read_text(encoding="utf-8"))["seconds"]

    def quick(file: Path) -> bool:
        return seconds.get(file.as_posix(), DEFAULT_SECONDS) < QUICK

    parts = [list(part) for ring in rings for part in (filter(quick, ring), filterfalse(quick, ring))]
    return list(filter(None, parts))


def names_of(path: Path, module: str) -> frozenset[str]:
    """Return the names that a module of the library imports."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return imports(path.read_text(encoding="utf-8"), package)


def direct_importers(root: Path, modules: set[str], pattern: re.Pattern[str] | None = None) -> list[Path]:
    """Return the test files that import a module or contain the text, or import a helper that does."""
    tests = root / "tests"
    helpers = [p for p in tests.rglob("*.py") if not p.name.startswith("test_")]
    helper_names: set[str] = set()

    def matches(path: Path) -> bool:
        if names(path, tests) & (modules | helper_names):
            return True
        return pattern is not None and pattern.search(path.read_text(encoding="utf-8")) is not None

    has_grown = True
    while has_grown:
        more_helpers = {name_in_tests(p, tests) for p in helpers if matches(p)}
        has_grown, helper_names = not more_helpers <= helper_names, helper_names | more_helpers
    return sorted(p.relative_to(root) for p in tests.rglob("test_*.py") if matches(p))


def facades(root: Path, module: str) -> set[str]:
    """Return the packages above a module whose `__init__` imports it, so their importers import it too."""
    parents = module.split(".")[:-1]
    packages = {".".join(parents[: k + 1]) for k in range(len(parents))}
    facade_packages = set()
    for package in packages:
        init = root.joinpath(*package.split("."), "__init__.py")
        if init.exists() and module in imports(init.read_text(encoding="utf-8"), package):
            facade_packages.add(package)
    return facade_packages


def name_in_tests(path: Path, tests: Path) -> str:
    """Return the name by which tests import a file: `helpers.envs`; a conftest or package by its folder."""
    return module_of(path.relative_to(tests))


def names(path: Path, tests: Path) -> set[str]:
    """Return what a file below `tests` imports; relative imports start from the folder of the file."""
    package = ".".join(path.relative_to(tests).parts[:-1])
    conftest = {f"{package}.conftest"} if path.name.startswith("test_") else set()
    return conftest | imports(path.read_text(encoding="utf-8"), package)


@dataclass(frozen=True)
class Trial:
    """The settings of a test run."""

    timeout: float  # seconds until the tests count as hung; pytest-timeout ends most of them earlier
    processes: int = 0  # processes of pytest-xdist; 0: without it
    nightly: bool = False  # whether survivors of the CI tests meet the nightly tests

    def run(self, root: Path, tests: Iterable[Path | str], nightly: bool = False) -> str:
        """Return how tests end, given by file or name: those of CI, or only the nightly ones."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header"]
        command += [
            "-p",
            "no:cacheprovider",
            "-p",
            "no:rlox-budgets",
        ]  # a slow machine must not fail them
        command += ["-m", f"{'slow' if nightly else 'not slow'} and not alone"]
        command += ["-n", str(self.processes)] if self.processes else []
        env = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        env |= {"PYTHONPATH": str(root), "CI": "1"} | ({"RLOX_NIGHTLY": "1"} if nightly else {})
        env["PYTHONDONTWRITEBYTECODE"] = "1"  # a cached file would hide a second change within a second
        child = subprocess.Popen(
            [*command, *map(str, tests)], cwd=root, env=env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            output, _ = child.communicate(timeout=self.timeout)
        except subprocess.TimeoutExpired:
            return "caught by the clock"
        finally:
            if child.returncode is None:  # also if this process is stopped
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
        if child.returncode in (0, NO_TESTS):
            return "survived"
        failures = re.findall(r"^(?:FAILED|ERROR) tests/.*", output, re.M)
        name = failures[0].partition(" - ")[0].split(" ", 1)[1] if failures else ""
        return f"{CAUGHT_PREFIX}{name}" if failures else f"caught: {output[-300:]}"

    def passes(self, root: Path, outcome: str, files: Iterable[Path], nightly: bool) -> bool:
        """Return whether the failed test passes now; if its name is unknown, whether all files pass."""
        named_tests = (
            [[outcome.removeprefix(CAUGHT_PREFIX)]] if outcome.startswith(f"{CAUGHT_PREFIX}tests/") else []
        )
        return any(self.run(root, tests, nightly) == "survived" for tests in (*named_tests, files))


def judge(root: Path, site: Site, trial: Trial) -> Verdict:
    """Return the verdict on a mutant; make it in the copy `root` and undo it."""
    path = root / site.path
    source = path.read_text(encoding="utf-8")
    rings = importers(root, site.path)
    verdict = Verdict(site, 0, "survived: no test imports it")
    try:
        for nightly in (False, True)[: 1 + trial.nightly]:
            n_files = 0
            for files in rings:
                path.write_text(site.apply(source), encoding="utf-8")
                outcome = trial.run(root, files, nightly)
                if outcome != "survived":
                    path.write_text(source, encoding="utf-8")
                    if not trial.passes(root, outcome, files, nightly):
                        outcome = f"survived: without it too, {outcome}"
                n_files += len(files)
                verdict = Verdict(site, n_files, outcome, nightly)
                if verdict.is_caught:
                    return verdict
    finally:
        path.write_text(source, encoding="utf-8")
    return verdict


def copy_tree(tree: Path, target: Path) -> Path:
    """Copy the parts of the tree that tests need to `target` and return it."""

    def ignored_names(folder: str, names: list[str]) -> set[str]:
        return IGNORE_PATTERNS(folder, names) | (
            EXCLUDED_FOLDERS if Path(folder) == tree / "tests" else set()
        )

    shutil.copytree(tree, target, ignore=ignored_names, symlinks=True)
    return target


def python_files(root: Path, selected: Sequence[str]) -> list[Path]:
    """Return the Python files among the given files and folders of `root`."""
    places = [root / name for name in selected]
    missing = [name for name, place in zip(selected, places, strict=True) if not place.exists()]
    if missing:
        raise SystemExit(f"mutants: no such file or folder in {root}: {', '.join(missing)}")
    files = [p for place in places for p in ([place] if place.is_file() else place.rglob("*.py"))]
    return sorted(set(files))


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("packages", nargs="+", help="files or folders of the tree")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--count", type=int, default=20, help="how many mutants")
    parser.add_argument("--least", type=int, default=0, help="mutants that have to be caught")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds for a run of tests")
    parser.add_argument("--nightly", action="store_true", help="survivors meet slow tests too")
    parser.add_argument("--record", type=Path, help="the file that gets the counts, as JSON")
    parser.add_argument("-n", type=int, default=0, dest="processes", help="pytest's processes")
    parser.add_argument("--root", type=Path, default=TESTS.parent, help="the tree that is copied")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Draw and judge mutants and print the result."""
    options = arguments(argv)
    sites = draw(python_files(options.root, options.packages), options.root, options.seed, options.count)
    trial = Trial(options.timeout, options.processes, options.nightly)
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        root = copy_tree(options.root, Path(folder) / "tree")
        for number, site in enumerate(sites, 1):
            start = time.monotonic()
            verdict = judge(root, site, trial)
            verdicts.append(verdict)
            duration_text = f"{verdict.tests} test files, {time.monotonic() - start:.0f} s"
            line = f"{verdict.outcome}{' (nightly)' * verdict.nightly}"
            print(f"{number:3} {site.path}: {site.description}: {line} ({duration_text})")
            print(diff(site, (root / site.path).read_text(encoding="utf-8")), flush=True)
    caught = sum(verdict.is_caught for verdict in verdicts)
    print(f"seed {options.seed}: {caught} of {len(verdicts)} caught")
    if options.record is not None:
        summary = counts(options.root, verdicts)
        options.record.write_text(json.dumps({"seed": options.seed, **summary}), encoding="utf-8")
    return int(caught < options.least)


def counts(root: Path, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return how many mutants were caught, by which tests, and where the others are."""

    def locate(site: Site) -> str:
        text_before = (root / site.path).read_text(encoding="utf-8")[: site.begin]
        return f"{site.path.as_posix()}:{text_before.count(chr(10)) + 1}: {site.description}"

    caught = [verdict for verdict in verdicts if verdict.is_caught]
    return {
        "drawn": len(verdicts),
        "caught": len(caught),
        "caught in CI": sum(not verdict.nightly for verdict in caught),
        "survivors": [locate(verdict.site) for verdict in verdicts if not verdict.is_caught],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
