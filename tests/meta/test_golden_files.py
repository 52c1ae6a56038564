"""Tests that the golden files' index is correct, and that making and comparing them detect every change."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from golden import files, making
from golden.cases import CASES, select
from golden.commands import main
from golden.compare import Installation, compare_files, make_cases
from golden.files import HERE, ROOT, UnknownCase, golden_files, largest_change, read, sha256, write


def problems(folder: Path, index: dict[str, dict[str, str]]) -> list[str]:
    """Return golden files that the index lacks or lists with another checksum, and entries without a file."""
    names = golden_files(folder)
    changed_names = [n for n in names if n in index and index[n]["sha256"] != sha256(folder / n)]
    return sorted([*changed_names, *(index.keys() ^ set(names))])


def test_the_index_lists_every_golden_file_with_its_checksum_and_what_made_it() -> None:
    index = files.load_index()
    assert len(index["files"]) > 600
    assert problems(HERE, index["files"]) == []
    assert {row["made"] for row in index["files"].values()} == index["made"].keys()
    wrong = {n for n, row in index["files"].items() if row["format"] != files.format_of(HERE / n)}
    assert wrong == set()


def test_a_changed_a_new_and_a_lost_file_are_each_noticed(tmp_path: Path) -> None:
    shutil.copytree(HERE / "environments", tmp_path / "environments")
    names = golden_files(tmp_path)
    listed = {name: {"sha256": sha256(tmp_path / name)} for name in names}
    assert problems(tmp_path, listed) == []
    changed, lost = (tmp_path / name for name in names[:2])
    changed.write_bytes(changed.read_bytes() + b"\0")
    lost.rename(tmp_path / "new.npz")
    assert problems(tmp_path, listed) == sorted([*names[:2], "new.npz"])


def test_no_golden_case_writes_into_the_folder_of_old_versions() -> None:
    assert CASES
    assert {name.partition("/")[0] for name in CASES} == {
        "buffers", "environments", "datasets", "runs",
    }  # fmt: skip


def test_a_kept_version_is_never_written_again(capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: sha256(HERE / "old" / name) for name in golden_files(HERE / "old")}
    assert main(["keep", "2026-11-28"]) == 1
    assert "2026-11-28 is there" in capsys.readouterr().err
    assert {name: sha256(HERE / "old" / name) for name in golden_files(HERE / "old")} == before


def test_golden_cases_are_selected_by_name_last_part_or_pattern() -> None:
    assert select(["runs/sac"]) == ["runs/sac"]
    assert select(["sac"]) == ["runs/sac", "runs/sac.after"]
    assert select(["environments/Pendulum*"]) == [
        f"environments/Pendulum-v1.{kind}" for kind in ("single", "f64", "f32")
    ]
    assert select([]) == list(CASES)
    with pytest.raises(UnknownCase, match="no golden case is 'sax'"):
        select(["sac", "sax"])
    assert main(["make", "sax"]) == 2


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), None),
        (np.float32([1, 2]), np.float32([1.5, 2]), 0.5),
        (np.float64(3.0), np.float64(1.0), 2.0),
        (np.uint8([255]), np.uint8([0]), 255.0),
        (np.bool_([True]), np.bool_([False]), 1.0),
        (np.float32([0.0]), np.float32([-0.0]), 0.0),
        (np.float32([np.nan, 1]), np.float32([np.nan, 1]), None),
        (np.float32([np.nan]), np.float32([1]), np.inf),
        (np.float32([np.inf, 1]), np.float32([np.inf, 2]), 1.0),
        (np.float32([1]), np.float64([1]), "float32[1] -> float64[1]"),
        (np.float32([1]), np.float32([[1]]), "float32[1] -> float32[1, 1]"),
        (np.array("a"), np.array("b"), "other text"),
    ],
)
def test_the_largest_change_of_an_array_is_found(before, after, change) -> None:
    assert largest_change(before, after) == change


def test_the_golden_maker_writes_and_prints_changes_and_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, made = tmp_path / "golden", tmp_path / "made"
    monkeypatch.setattr(making, "HERE", here)
    write(here / "runs/same.npz", {"w": np.float32([1, 2])})
    write(here / "runs/other.npz", {"w": np.float32([1, 2]), "b": np.float32([3])})
    write(here / "runs/unknown.npz", {"w": np.float32([1])})
    for folder, text in ((here, "old"), (made, "new")):
        (folder / "runs/saved").mkdir(parents=True)
        (folder / "runs/saved/state.json").write_text(text)
    (made / "runs/added").mkdir()
    (made / "runs/added/state.json").write_text("new")
    write(made / "runs/same.npz", {"w": np.float32([1, 2])})
    write(made / "runs/other.npz", {"w": np.float32([1, 2.5]), "b": np.float32([3])})
    before = {name: (here / name).read_bytes() for name in golden_files(here)}

    assert making.install(made) == ["runs/other.npz", "runs/added/state.json"]
    out = capsys.readouterr().out
    assert "runs/same.npz: arrays: 1 equal\n  w: equal\n" in out
    assert "runs/other.npz: arrays: 1 equal, 1 changed by at most 0.5\n  w: 0.5\n  b: equal\n" in out
    after = {name: (here / name).read_bytes() for name in golden_files(here)}
    assert after.keys() == before.keys() | {"runs/added/state.json"}
    assert {name for name in before if after[name] != before[name]} == {"runs/other.npz"}
    assert read(here / "runs/other.npz")["w"][1] == 2.5


def test_an_extension_that_is_older_than_its_rust_code_makes_nothing(tmp_path: Path) -> None:
    core, source = tmp_path / "rlox/_core.so", tmp_path / "rust/rlox-core/src/lib.rs"
    for at, path in enumerate((source, core)):
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (at, at))
    making.require_built(core, tmp_path)
    os.utime(source, (2, 2))
    with pytest.raises(SystemExit, match=r"_core\.so was built before lib\.rs changed: pip install"):
        making.require_built(core, tmp_path)


def test_the_comparison_names_each_file_as_equal_changed_or_on_one_side_only(
    tmp_path: Path,
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for side, last in ((there, 1.0), (here, 1.25)):
        write(side / "runs/equal.npz", {"w": np.float32([1])})
        write(side / "runs/changed.npz", {"w": np.float32([last]), "b": np.float32([3])})
        write(side / f"runs/only_{side.name}.npz", {"w": np.float32([1])})
    assert dict(compare_files(there, here, "abc")) == {
        "runs/equal.npz": ("arrays: 1 equal", True),
        "runs/changed.npz": ("arrays: 1 equal, 1 changed by at most 0.25", False),
        "runs/only_here.npz": ("only here", None),
        "runs/only_there.npz": ("only at abc", None),
    }


MAKER_SCRIPT = """
import sys
from pathlib import Path
import numpy as np
KNOWN = {"runs/discrete": 1.0, "runs/sac": 2.0}
_, out, *names = sys.argv[1:]
if set(names) - set(KNOWN):
    sys.exit(2)
for name in names:
    file = Path(out, f"{name}.npz")
    file.parent.mkdir(exist_ok=True)
    np.savez(file, w=np.float32([KNOWN[name]]))
Path(out, "made.json").write_text("{}")
"""


def test_an_older_commit_makes_the_golden_cases_that_it_has(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "tests" / "golden").mkdir(parents=True)
    (source / "tests" / "golden" / "__main__.py").write_text(MAKER_SCRIPT, encoding="utf-8")
    # an rlox that lacks everything the cases here import
    (tmp_path / "old" / "rlox").mkdir(parents=True)
    (tmp_path / "old" / "rlox" / "__init__.py").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path / "old"}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    names = ["runs/discrete", "runs/a2c", "runs/sac"]
    said = make_cases(Installation(str(python), source), tmp_path / "there", names)
    assert said["failed"].keys() == {"runs/a2c"}
    assert "lacks what the cases here import" in said["failed"]["runs/a2c"]
    assert said["rlox"] == str(tmp_path / "old" / "rlox")
    made = {p.relative_to(tmp_path / "there").as_posix() for p in tmp_path.glob("there/*/*.npz")}
    assert made == {"runs/discrete.npz", "runs/sac.npz"}
    assert read(tmp_path / "there" / "runs/sac.npz")["w"][0] == 2.0


CompareFunction = Callable[..., tuple[int, str]]


@pytest.fixture
def compare_with_copy(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CompareFunction:
    """Compare the package of this checkout with a copy in which one text is replaced."""

    def call(file: str, text: str, replacement: str, *names: str) -> tuple[int, str]:
        copy = tmp_path / "changed"
        for package in ("rlox", "rlox_cli"):
            shutil.copytree(ROOT / package, copy / package, symlinks=True)
        source = (copy / file).read_text()
        assert source.count(text) == 1
        (copy / file).write_text(source.replace(text, replacement))
        python = tmp_path / "python"
        paths = f'PYTHONPATH="{copy}:$PYTHONPATH"'
        python.write_text(f'#!/bin/sh\n{paths} exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        code = main(["compare", "a copy", *names, "--python", str(python)])
        return code, capfd.readouterr().out

    return call


@pytest.mark.slow
def test_comparing_a_package_with_its_copy_finds_every_bit_equal(
    compare_with_copy: CompareFunction, tmp_path: Path
) -> None:
    line = "class OnPolicyConfig"
    code, out = compare_with_copy("rlox/configs/on_policy.py", line, line, "native_ppo", "runs/a2c")
    assert code == 0
    assert f"a copy: {tmp_path / 'changed' / 'rlox'}" in out
    assert "3 of 3 files equal in every bit" in out


@pytest.mark.slow
def test_the_comparison_finds_the_runs_that_another_default_changes(
    compare_with_copy: CompareFunction,
) -> None:
    line = "gae_lambda: float = param(0.95"
    code, out = compare_with_copy(
        "rlox/configs/on_policy.py", line, line.replace("0.95", "0.9"), "runs/discrete", "runs/sac"
    )
    assert code == 1
    (row,) = [row for row in out.splitlines() if row.startswith("runs/discrete.npz")]
    assert "changed by at most" in row
    assert "1 of 2 files equal in every bit" in out


def test_the_index_is_readable_line_by_line() -> None:
    text = files.INDEX.read_text(encoding="utf-8")
    assert json.loads(text) == files.load_index()
    index = files.load_index()
    assert len(text.splitlines()) == 6 + len(index["files"]) + len(index["made"])
