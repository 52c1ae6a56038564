"""Tests the wheel's dependencies: locked crates from one registry, with the licences of deny.toml."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DENY = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))
ALLOWED = set(DENY["licenses"]["allow"])
EXCEPTIONS = {e["crate"]: set(e["allow"]) for e in DENY["licenses"]["exceptions"]}
# The tensor libraries have their own workspace: they are hundreds of crates, which take minutes to compile.
LIBRARIES = ROOT / "rust" / "tensor-libraries"
FUZZ = ROOT / "rust" / "fuzz"
BESIDE = sorted(
    Path(member).name
    for member in tomllib.loads((LIBRARIES / "Cargo.toml").read_text(encoding="utf-8"))["workspace"][
        "members"
    ]
)
LOCKS = pytest.mark.parametrize("folder", [ROOT, LIBRARIES, FUZZ], ids=["wheel", "tensor libraries", "fuzz"])
REGISTRY = re.compile(r"registry\+\S+/crates\.io-index")
LICENCE = re.compile(r"[\w.+-]+(?: WITH [\w.+-]+)?")


def is_allowed(expression: str, allowed: set[str]) -> bool:
    """Return whether the allowed licences satisfy an SPDX expression."""
    words = re.sub(r"[()/]", lambda m: f" {m[0].replace('/', 'OR')} ", expression)
    operators = {"OR": "or", "AND": "and"}
    logic = LICENCE.sub(lambda m: operators.get(m[0], str(m[0] in allowed)), words)
    assert re.fullmatch(r"(?:True|False|or|and|[() ])+", logic), expression
    return bool(eval(logic))


def listed(folder: Path) -> dict[str, str]:
    """Return the licence of every crate that the workspace uses on this platform, with its tests.

    The keys are `name version`; for crates of this checkout they also have `(folder)`.
    """
    command = ["cargo", "tree", "--locked", "--offline", "--edges=normal,build,dev"]
    command += ["--workspace", "--prefix=none", "--format={p}|{l}|"]
    listing = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    needed = folder == ROOT and os.environ.get("CI")
    if listing.returncode and not needed and "offline" in listing.stderr:
        pytest.skip("some crates were never downloaded here; `cargo fetch --locked` does it")
    assert listing.returncode == 0, listing.stderr
    lines = (line.split("|") for line in listing.stdout.splitlines() if "|" in line)
    return {name.replace(" (proc-macro)", ""): licence for name, licence, _ in lines}


@pytest.fixture(scope="module")
def crates() -> dict[str, str]:
    """Return the crates of the wheel and of `.ci/run`."""
    return listed(ROOT)


def test_the_allowed_licences_are_permissive():
    copyleft = re.compile(r"GPL|MPL|EUPL|CC-BY-SA|SSPL")
    assert {"MIT", "Apache-2.0"} <= ALLOWED
    assert [name for name in ALLOWED if copyleft.search(name)] == []


def test_every_crate_has_an_allowed_licence(crates):
    assert len(crates) > 10
    assert [name for name, licence in crates.items() if not is_allowed(licence, ALLOWED)] == []


@pytest.mark.parametrize("folder", [LIBRARIES, FUZZ], ids=["tensor libraries", "fuzz"])
def test_every_crate_beside_the_wheel_has_an_allowed_licence_or_an_exception(folder):
    refused = {
        name: licence
        for name, licence in listed(folder).items()
        if not is_allowed(licence, ALLOWED | EXCEPTIONS.get(name.split()[0], set()))
    }
    assert refused == {}


def test_building_the_wheel_downloads_no_tensor_library():
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    names = {p["name"] for p in lock["package"]}
    assert {"rlox-python", "rlox-nn", "matrixmultiply"} <= names
    assert BESIDE == ["rlox-burn", "rlox-candle"]
    assert not {*BESIDE, *EXCEPTIONS, "candle-core", "burn-tensor"} & names


def test_the_two_cargo_workspaces_share_lints_profiles_and_core_versions():
    trees = [
        tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8")) for folder in (ROOT, LIBRARIES)
    ]
    for part in ("lints", "package", "resolver"):
        assert trees[0]["workspace"][part] == trees[1]["workspace"][part]
    assert trees[0]["profile"] == trees[1]["profile"]
    ours, theirs = (
        {
            (p["name"], p["version"])
            for p in tomllib.loads((f / "Cargo.lock").read_text(encoding="utf-8"))["package"]
        }
        for f in (ROOT, LIBRARIES)
    )
    of_core = {name for name, _ in ours if name in {"matrixmultiply", "rand_chacha", "rayon"}}
    assert len(of_core) == 3
    assert {p for p in ours if p[0] in of_core} <= theirs


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT OR Apache-2.0", True),
        ("MIT/Apache-2.0", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("none", False),
    ],
)
def test_licence_expressions_follow_spdx(expression, allowed):
    permitted = {"MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"}
    assert is_allowed(expression, permitted) is allowed


@LOCKS
def test_every_crate_is_our_own_or_from_the_one_registry(folder):
    lock = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))
    sources = [(p["name"], p.get("source")) for p in lock["package"]]
    ours = {name for name, source in sources if source is None}
    assert ours == {name.split()[0] for name in listed(folder) if name.endswith(")")}
    assert all(REGISTRY.fullmatch(s) for _, s in sources if s)


@LOCKS
def test_every_locked_crate_has_a_checksum(folder):
    lock = tomllib.loads((folder / "Cargo.lock").read_text(encoding="utf-8"))
    assert [p["name"] for p in lock["package"] if "source" in p and "checksum" not in p] == []


def test_constraints_name_one_exact_version_of_each_requirement():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [p for p in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", p)] == []
    pinned = {normal(p.split("==")[0]) for p in pins}
    assert len(pinned) == len(pins)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["dev"], *extras["box2d"]]
    wanted += [*extras["mujoco"], *extras["tensorboard"], *extras["video"]]
    names = {normal(re.match(r"[\w.-]+", w)[0]) for w in wanted} - {"rlox-runner"}
    assert names - pinned == set()


def normal(name: str) -> str:
    """Return a package name in the normal form of the index."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_versions_of_wheel_crates_and_library_agree():
    import rlox

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert project["version"] == cargo["workspace"]["package"]["version"] == rlox.__version__
