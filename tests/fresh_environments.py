"""Runs tests in fresh environments: other Pythons, lowest versions, packages that CI lacks.

    python tests/fresh_environments.py NAME JUNIT

makes the environment NAME of `ENVIRONMENTS` below `.cache/nightly`, runs its tests, writes their results to
the file JUNIT, and removes the environment. If this machine lacks something that the environment needs, such
as a Python of that version, it prints a line that begins with `not available:` and exits with code 69.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_AVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h
NOT_OF_USERS = ("dev", "peers")
TEST_TOOLS = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist")
# These tests depend on the versions of Python and the libraries, and need no extra.
CORE = (
    "core", "buffers", "configs", "sources", "networks", "optim", "policies", "training", "algorithms",
    "runs", "statistics",
)  # fmt: skip
CORE_TESTS = tuple(f"tests/unit/{name}" for name in CORE)
EPISODES = 2
SHORT = (
    "tuned=null", "total_steps=256", "algo.n_steps=32", "algo.batch_size=64", "env.n_envs=4",
    f"eval.episodes={EPISODES}", "seed=3",
)  # fmt: skip
BACKENDS = ("native", "torch")


class NotAvailableError(Exception):
    """This machine lacks something that the environment needs; the message names it."""


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> None:
    """Run a command with this process's output; a code but 0 raises `subprocess.CalledProcessError`."""
    print("+", *command, flush=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # with maturin
    subprocess.run(command, cwd=cwd, env=os.environ | {"PATH": path} | variables, check=True)


def command_output(*command: str | Path) -> str:
    """Return the output of a command; empty if it fails or does not exist."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def interpreters(version: str, folder: Path) -> Iterator[str]:
    """Yield candidates for a Python such as `3.13`: on the path, from pyenv, from uv, or installed by uv."""
    yield f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
    uv = shutil.which("uv")
    if uv is None:
        run(sys.executable, "-m", "venv", folder / "uv")
        run(folder / "uv/bin/pip", "install", "-q", "uv")
        uv = str(folder / "uv/bin/uv")
    os.environ.setdefault("UV_PYTHON_INSTALL_DIR", str(folder / "pythons"))
    try:
        run(uv, "python", "install", version)
    except subprocess.CalledProcessError:
        return
    yield command_output(uv, "python", "find", version)


def interpreter(version: str, folder: Path) -> str:
    """Return the first of `interpreters` that starts and has that version."""
    version_script = "import ensurepip, sys, venv; print('{}.{}'.format(*sys.version_info))"
    for python in interpreters(version, folder):
        if command_output(python, "-c", version_script) == version:
            return python
    raise NotAvailableError(f"no Python {version} on the path, none of pyenv's, and uv could not install one")


def lowest_constraints(pyproject: Path) -> list[str]:
    """Return constraints that pin each dependency of users to its lower bound."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    chosen = (
        project["dependencies"],
        *(extras[name] for name in extras if name not in NOT_OF_USERS),
    )
    every = (entry for entries in chosen for entry in entries)
    bounds = (re.match(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", entry) for entry in every)
    return sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound})


def train(rlox: Path, python: str, folder: Path) -> None:
    """Train briefly with each engine and check in the run folder its end, score and Python."""
    for backend in BACKENDS:
        place = folder / f"run-{backend}"
        run(rlox, "train", *SHORT, f"algo.backend={backend}", f"hydra.run.dir={place}", cwd=folder)
        result = json.loads((place / "result.json").read_text(encoding="utf-8"))
        summary = (result["status"], len(result["episodes"]), 1 <= result["score"] <= 500)
        if summary != ("done", EPISODES, True):
            raise SystemExit(f"the run of the {backend} engine left {result}")
        if python not in (place / "provenance.json").read_text(encoding="utf-8"):
            raise SystemExit(f"the run of the {backend} engine does not say Python {python}")


def wheel_under(python: str, constraints: Path, folder: Path, junit: Path) -> None:
    """Build the wheel, install it for `python` in another folder, train, and run the core's quick tests."""
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation")
    run(*pip, "-w", folder, ROOT)
    (wheel,) = folder.glob("rlox_runner-*.whl")
    run(python, "-m", "venv", folder / "venv")
    binaries = folder / "venv/bin"
    run(binaries / "pip", "install", "-c", constraints, wheel, *TEST_TOOLS)
    version = command_output(binaries / "python", "-c", "import platform; print(platform.python_version())")
    train(binaries / "rlox", version, folder)
    # Last in the path, for the processes of tests that unpickle; rlox stays the installed one.
    (site_packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (site_packages / "checkout.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    quick = ("-n", "2", "-m", "not alone and not slow")
    run(binaries / "pytest", *quick, f"--junitxml={junit}", *CORE_TESTS)


def later_python(version: str) -> Callable[[Path, Path], None]:
    def stage(folder: Path, junit: Path) -> None:
        wheel_under(interpreter(version, folder), ROOT / "constraints.txt", folder, junit)

    return stage


def lowest_versions(folder: Path, junit: Path) -> None:
    constraints = folder / "lowest.txt"
    constraints.write_text("\n".join(lowest_constraints(ROOT / "pyproject.toml")) + "\n", encoding="utf-8")
    wheel_under(sys.executable, constraints, folder, junit)


def with_package(package: str, module: str, *tests: str) -> Callable[[Path, Path], None]:
    """Return a function that runs tests in a copy of the development environment with one more package."""

    def stage(folder: Path, junit: Path) -> None:
        place = folder / "venv"
        python = place / "bin/python"
        run(sys.executable, "-m", "venv", "--without-pip", place)
        (site,) = place.glob("lib/python*/site-packages")
        # If a .pth file names a folder, Python does not read that folder's own .pth files, such as the file
        # of the editable rlox.
        shared = [ROOT, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        lines = dict.fromkeys(map(str, shared))
        (site / "development.pth").write_text("\n".join(lines) + "\n", encoding="utf-8")
        pip = (sys.executable, "-m", "pip", "--python", python, "install", "-q")
        run(*pip, "-c", ROOT / "constraints.txt", package)
        run(python, "-c", f"import {module}")  # without the package the tests would be skipped
        run(python, "-m", "pytest", "-n", "2", f"--junitxml={junit}", *tests)

    return stage


ENVIRONMENTS = {
    "envpool": with_package(
        "envpool", "envpool",
        "tests/unit/envs/test_pools.py", "tests/unit/envs/test_pool_options.py",
        "tests/unit/envs/test_atari.py", "tests/unit/cli/test_engines.py",
    ),
    "sb3-contrib": with_package("sb3-contrib", "sb3_contrib", "tests/parity/test_qr_dqn.py"),
    **{f"python{version}": later_python(version) for version in ("3.12", "3.13", "3.14")},
    "lowest": lowest_versions,
}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Make the environment in an empty folder, run its tests, and remove it even if one fails."""
    parser = argparse.ArgumentParser("fresh_environments", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", choices=ENVIRONMENTS, metavar="NAME", help=", ".join(ENVIRONMENTS))
    parser.add_argument("junit", metavar="JUNIT", type=Path, help="file for the results of the tests")
    options = parser.parse_args(argv)
    name = options.name
    folder = ROOT / ".cache/nightly/environments" / name
    shutil.rmtree(folder, ignore_errors=True)  # left over from a killed run
    folder.mkdir(parents=True)
    try:
        ENVIRONMENTS[name](folder, options.junit.resolve())
    except NotAvailableError as error:
        print(f"not available: {error}")
        return NOT_AVAILABLE
    except subprocess.CalledProcessError as error:
        print(f"exit code {error.returncode}: {' '.join(map(str, error.cmd))}")
        return 1
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
