"""Tests the project's own rules, which no linter checks."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
BINARY = {".png", ".so", ".mp4", ".safetensors", ".gif", ".npz", ".seg", ".manifest", ".db", ".bin"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|home|Users|work|opt)/\w")
REGISTRY_HOST = re.compile(r"\b(?:pypi|pythonhosted|crates)\.(?:org|io)\b(?!-index)")
UNFINISHED = re.compile(r"\b(?:[T]ODO|[F]IXME)\b")
RUST_FN = re.compile(r"( *)(?:pub(?:\([^)]*\))? )?(?:const |unsafe |async )*fn (\w+)")
UNSAFE_RUST = re.compile(r"\bunsafe(?:_code)?\b")
# modules whose documentation says why they are sound
AUDITED = {
    "rust/rlox-core/src/row_copy.rs",
    "rust/rlox-nn/src/cpu/gemm.rs",
    "rust/rlox-nn/src/cpu/kernel.rs",
    "rust/rlox-nn/src/cpu/kernel/tests.rs",
    "rust/rlox-nn/src/cpu/operand.rs",
    "rust/rlox-python/src/memory/views.rs",
}
UNSAFE_LOAD = re.compile(r"\bimport (?:cloud)?pickle|\bfrom (?:cloud)?pickle|torch\.load\(")
CHECKS = re.compile(r"^(?:assert|check|raises$|warns$|fail$)")


def project_files(root: Path = ROOT) -> list[Path]:
    """Return every file that `.gitignore` does not match, without calling git."""
    rules = [".git", *(root / ".gitignore").read_text(encoding="utf-8").split()]
    anywhere, below_root = (
        re.compile("|".join(fnmatch.translate(rule.strip("/")) for rule in of) or "(?!)")
        for of in (
            [rule for rule in rules if not rule.startswith("/")],
            [rule for rule in rules if rule.startswith("/")],
        )
    )

    def kept(folder: Path, name: str) -> bool:
        place = (folder / name).relative_to(root).as_posix()
        return not (anywhere.match(name) or below_root.match(place))

    found: list[Path] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if kept(Path(folder), name)]
        found += [Path(folder, name) for name in files if kept(Path(folder), name)]
    return sorted(p for p in found if p.is_file() and not p.is_symlink())


FILES = project_files()
TEXT = [p for p in FILES if p.suffix not in BINARY]
PYTHON = [p for p in FILES if p.suffix == ".py"]
RUST = [p for p in FILES if p.suffix == ".rs"]
CODE = [p for p in (*PYTHON, *RUST) if p.relative_to(ROOT).parts[0] in ("rlox", "rlox_cli", "rust")]


def text_of(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Return `file:line: text` for every line that matches the pattern."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if pattern.search(line)
    ]


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of lines of each function."""
    source = text_of(path)
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, (node.end_lineno or 0) - node.lineno + 1
        return
    # This relies on rustfmt's layout: `{` ends the last line of the signature; `}` has its indentation.
    lines = source.splitlines()
    for start, line in enumerate(lines):
        head = RUST_FN.match(line)
        opening = next((row for row in lines[start:] if row.endswith(("{", "}", ";"))), "")
        if head and opening.endswith("{"):
            yield head[2], lines[start:].index(head[1] + "}") + 1


def test_the_house_rules_scan_the_projects_files_and_no_build_output():
    names = {str(p.relative_to(ROOT)) for p in CODE}
    assert {"rlox/types.py", "rlox_cli/main.py", "rust/rlox-core/src/lib.rs"} <= names
    assert "rlox/runs/algorithm.py" in names  # `/runs/` in .gitignore is the folder at the root
    assert ROOT / "pyproject.toml" in TEXT
    assert not {".git", "target", "__pycache__"} & {part for p in FILES for part in p.relative_to(ROOT).parts}
    assert len(dict(functions(ROOT / "rust/rlox-core/src/advantage/gae.rs"))) > 3


def test_files_are_short_enough_to_read():
    long = {str(p.relative_to(ROOT)): len(text_of(p).splitlines()) for p in CODE}
    assert {name: n for name, n in long.items() if n > MAX_FILE_LINES} == {}


def test_functions_are_short_enough_to_read():
    long = [
        f"{path.relative_to(ROOT)}: {name} has {length} lines"
        for path in CODE
        for name, length in functions(path)
        if length > MAX_FUNCTION_LINES
    ]
    assert long == []


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATH, REGISTRY_HOST, UNFINISHED], ids=["path", "host", "unfinished"]
)
def test_no_file_names_a_machine_or_unfinished_work(pattern):
    assert lines_with(pattern, [p for p in TEXT if p.name != "Cargo.lock"]) == []


def test_the_patterns_find_what_they_forbid():
    assert MACHINE_PATH.search("see " + "/".join(["", "home", "me", "rlox"]))
    assert not MACHINE_PATH.search("https://example.invalid/home/me")
    assert REGISTRY_HOST.search("https://files." + "pythonhosted" + ".org/packages")
    assert UNFINISHED.search("# TO" + "DO later")
    assert UNSAFE_LOAD.search("    import cloudpickle")
    assert UNSAFE_LOAD.search("torch.load(path)")


def test_unsafe_rust_stands_in_the_audited_modules_only():
    code = [p for p in RUST if str(p.relative_to(ROOT)) not in AUDITED]
    assert lines_with(UNSAFE_RUST, code) == []
    assert all(lines_with(UNSAFE_RUST, [ROOT / name]) for name in AUDITED)


def test_the_library_and_the_runner_never_unpickle_data():
    assert lines_with(UNSAFE_LOAD, [p for p in CODE if p.suffix == ".py"]) == []


def test_the_library_never_calls_hasattr():
    library = [p for p in CODE if p.suffix == ".py" and p.relative_to(ROOT).parts[0] == "rlox"]
    assert lines_with(re.compile(r"\bhasattr\("), library) == []


def test_only_the_progress_module_of_the_library_prints():
    library = [p for p in CODE if p.suffix == ".py" and p.relative_to(ROOT).parts[0] == "rlox"]
    printing = lines_with(re.compile(r"^\s*print\("), library)
    assert {line.partition(":")[0] for line in printing} == {"rlox/runs/progress.py"}


def can_fail(condition: ast.expr) -> bool:
    """Return whether a condition can be false: it has a name or a call, and is no non-empty tuple or list."""
    if isinstance(condition, ast.Tuple | ast.List) and condition.elts:
        return False
    return any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(condition))


def checks_something(test: ast.AST, helpers: Collection[str] = ()) -> bool:
    """Return whether a function asserts, or calls a function that does (by its name, or one of `helpers`)."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert) and can_fail(node.test):
            return True
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if CHECKS.match(name) or name in helpers:
                return True
    return False


@pytest.mark.parametrize(
    "path",
    [p for p in PYTHON if p.relative_to(ROOT).parts[0] == "tests" and p.name.startswith("test_")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_every_test_function_contains_a_check_that_can_fail(path):
    found = [n for n in ast.walk(ast.parse(text_of(path))) if isinstance(n, ast.FunctionDef)]
    tests = [f for f in found if f.name.startswith("test_")]
    assert tests, "a test file without tests"
    helpers = {f.name for f in found if f not in tests and checks_something(f)}
    assert [f.name for f in tests if not checks_something(f, helpers)] == []


NO_SUBJECT = re.compile(r"^test_(?:it|so|that|there|they|those|what|which|who|whoever)_")


def test_the_name_of_a_test_begins_with_its_subject():
    files = [p for p in PYTHON if p.name.startswith("test_")]
    names = [name for path in files for name, _ in functions(path) if NO_SUBJECT.match(name)]
    assert names == []


def test_a_test_without_a_check_is_noticed():
    assert not checks_something(ast.parse("def test_x():\n    run()"))
    for always in ("assert True", "assert 1 == 1", "assert (x == 2, 'message')", "assert 'text'"):
        assert not checks_something(ast.parse(always)), always
    assert checks_something(ast.parse("assert found == 1"))
    assert checks_something(ast.parse("with pytest.raises(ValueError):\n    run()"))
    assert checks_something(ast.parse("follow(env)"), {"follow"})
