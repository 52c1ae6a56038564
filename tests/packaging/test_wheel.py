"""Tests the files that a user installs: the wheel and the sdist of this checkout, used in another folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers.build_env import ROOT, TARGET, build_variables

CARGO_HOME = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def run(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Return the command's output; fail the test with this output unless the exit code is 0."""
    result = subprocess.run(
        command,
        cwd=cwd,
        env=build_variables() | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}"
    return result.stdout


def build_wheel(source: Path, folder: Path, **variables: str) -> Path:
    """Build as `pip install` does, with the build tools of this environment and without downloads."""
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    run([*command, "-w", folder, source], folder, **variables)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel in the folder `RLOX_WHEEL`, where CI built it, or a wheel built from the checkout."""
    if folder := os.environ.get("RLOX_WHEEL"):
        (built,) = Path(folder).glob("*.whl")
        return built
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the source distribution."""
    folder = tmp_path_factory.mktemp("sdist")
    run([sys.executable, "-m", "maturin", "sdist", "--out", folder], ROOT)
    (built,) = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="session")
def sdist_wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that is built from the unpacked sdist, outside the checkout.

    The build is unoptimised and takes half the time: the tests need only its sources.
    """
    source = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(source, filter="data")
    # The archive's times are old, so cargo would use its earlier build of the checkout.
    for file in source.rglob("*.rs"):
        file.touch()
    (root,) = source.iterdir()
    folder = tmp_path_factory.mktemp("from_sdist")
    return build_wheel(root, folder, MATURIN_PEP517_ARGS="--profile dev")


@pytest.fixture(scope="session")
def contents(wheel: Path) -> dict[str, bytes]:
    """Return every file of the wheel."""
    return files_of(wheel)


def files_of(wheel: Path) -> dict[str, bytes]:
    """Return name and content of each file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that installs a wheel into a fresh virtual environment and returns its folder."""

    def install_into_fresh_environment(wheel: Path) -> Path:
        place = tmp_path_factory.mktemp("installed") / "venv"
        run([sys.executable, "-m", "venv", "--without-pip", place], place.parent)
        python = place / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
        run([*pip, "--no-deps", "--no-index", wheel], place.parent)
        # Dependencies come from this environment. Python reads .pth files, such as the file of the editable
        # rlox, only in a site folder, and a folder that a .pth file names is not one.
        (site,) = place.glob("lib/python*/site-packages")
        shared = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        (site / "dependencies.pth").write_text("\n".join(sorted(shared)) + "\n", encoding="utf-8")
        return place

    return install_into_fresh_environment


@pytest.fixture(scope="session")
def installed(wheel: Path, install: Callable[[Path], Path]) -> Path:
    """Return an environment with the wheel."""
    return install(wheel)


def test_the_wheel_fits_every_python_since_3_11(wheel, contents):
    assert re.fullmatch(r"rlox_runner-[\d.]+-cp311-abi3-\w+\.whl", wheel.name)
    (tag,) = (text for name, text in contents.items() if name.endswith(".dist-info/WHEEL"))
    assert b"Tag: cp311-abi3-" in tag


def test_the_wheel_adds_two_packages_and_nothing_else(wheel, contents):
    info = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    assert {name.split("/")[0] for name in contents} == {"rlox", "rlox_cli", info}
    assert [name for name in contents if "__pycache__" in name or name.endswith(".rs")] == []


def test_the_wheel_has_the_extension_its_types_and_the_licences(contents):
    assert {"rlox/_core.abi3.so", "rlox/_core.pyi", "rlox/py.typed"} <= contents.keys()
    licences = {name.split("/")[-1] for name in contents if "/licenses/" in name}
    assert licences == {"LICENSE-MIT", "LICENSE-APACHE"}


def test_the_wheel_has_every_module_of_the_checkout(contents):
    ours = [p for package in ("rlox", "rlox_cli") for p in (ROOT / package).rglob("*.py")]
    expected = {p.relative_to(ROOT).as_posix() for p in ours}
    linked = re.compile(r"^rlox_cli/(?:conf|benchmarks)/")
    packed = {name for name in contents if name.endswith(".py") and not linked.match(name)}
    assert packed == {name for name in expected if not linked.match(name)}


def test_the_wheel_has_the_benchmarks_that_rlox_bench_runs_and_no_results(contents):
    packed = {name for name in contents if name.startswith("rlox_cli/benchmarks/")}
    harness = {p.name for p in (ROOT / "benchmarks" / "harness").glob("*.py")}
    assert {f"rlox_cli/benchmarks/harness/{name}" for name in harness} <= packed
    assert "rlox_cli/benchmarks/measure_suite.py" in packed
    assert [name for name in packed if not name.endswith(".py")] == []


def test_the_wheel_has_the_config_tree_unchanged(contents):
    expected = {
        f"rlox_cli/{p.relative_to(ROOT).as_posix()}": p.read_bytes() for p in (ROOT / "conf").rglob("*.yaml")
    }
    for p in (ROOT / "rlox" / "tuned").rglob("*.yaml"):  # conf/tuned links to it
        name = p.relative_to(ROOT / "rlox").as_posix()
        expected |= dict.fromkeys([f"rlox/{name}", f"rlox_cli/conf/{name}"], p.read_bytes())
    packed = {n: data for n, data in contents.items() if n.endswith(".yaml")}
    assert packed == expected
    assert "rlox_cli/conf/train.yaml" in packed


def test_the_wheel_contains_no_paths_of_the_build_machine(contents):
    folders = {str(p).encode() for p in (ROOT, TARGET, CARGO_HOME, Path.home()) if p != Path("/")}
    # If the component rust-src is installed there, rustc names the sources of its own library by their path.
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
    library = f"{sysroot.stdout.strip()}/lib/rustlib/src/rust/library/".encode()
    own = {name: data.replace(library, b"") for name, data in contents.items()}
    assert [(name, f) for name, data in own.items() for f in folders if f + b"/" in data] == []


def test_the_installed_command_runs_without_the_checkout(installed, workdir):
    command = installed / "bin" / "rlox"
    assert "rlox train algo=ppo" in run([command, "--help"], workdir)
    assert "clip_eps: 0.2" in run([command, "train", "--cfg", "job"], workdir)
    where = "import rlox, rlox._core, rlox_cli; print(rlox.__file__, rlox_cli.__file__)"
    origins = run([installed / "bin" / "python", "-c", where], workdir).split()
    assert all(Path(origin).is_relative_to(installed) for origin in origins)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("command", ["doctor", "--version", "train"])
def test_the_command_reports_another_package_named_rlox_without_a_traceback(
    installed, workdir, command, later
):
    """The same holds if another rlox was installed later and replaced our file that contains the check."""
    (site,) = installed.glob("lib/python*/site-packages")
    other, package = site / "rlox-1.2.0.dist-info", site / "rlox" / "__init__.py"
    ours = package.read_bytes()
    other.mkdir()
    try:
        if later:
            package.write_text("__version__ = '1.2.0'\n")
        done = subprocess.run(
            [installed / "bin" / "rlox", command], cwd=workdir, capture_output=True, text=True
        )
    finally:
        package.write_bytes(ours)
        other.rmdir()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("rlox: the package rlox-1.2.0, another project")
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_installed_command_writes_a_run_folder(installed, workdir):
    short = ["total_steps=512", "algo.n_steps=64", "eval.episodes=2", "env=Pendulum-v1"]
    run([installed / "bin" / "rlox", "train", *short], workdir)
    assert len(list(workdir.glob("runs/Pendulum-v1/ppo/*/result.json"))) == 1


def test_the_sdist_has_the_build_files_and_no_other_folders(sdist):
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert all(m.isfile() for m in members)
    names = {m.name.partition("/")[2] for m in members}
    assert {"Cargo.lock", "Cargo.toml", "pyproject.toml", "README.md"} <= names
    assert {n.split("/")[0] for n in names if "/" in n} == {"rlox", "rlox_cli", "rust"}
    assert [n for n in names if n.endswith((".so", ".pyc"))] == []


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(sdist_wheel, contents):
    again = files_of(sdist_wheel)
    assert again.keys() == contents.keys()
    built = re.compile(r"\.so$|/RECORD$|/METADATA$")
    assert [n for n in again if again[n] != contents[n] and not built.search(n)] == []


@pytest.mark.slow
def test_the_sdist_installs_and_runs_without_a_checkout(sdist_wheel, install, workdir):
    place = install(sdist_wheel)
    assert "clip_eps: 0.2" in run([place / "bin" / "rlox", "train", "--cfg", "job"], workdir)
    code = "import rlox; print(rlox.VecEnv(n=3, seed=0).reset_all().shape)"
    assert "(3, 4)" in run([place / "bin" / "python", "-c", code], workdir)
