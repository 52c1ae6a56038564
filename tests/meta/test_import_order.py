"""Tests that imports point down: the folder tree is the architecture (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = (
    "_core types errors disk rng devices configs stopping hooks importing state_tree "
    "masked_arrays plugins lazy_imports extras",
    "envs networks losses optim parameters statistics distributed",
    "policies sources loggers callbacks presets llm",
    "native",
    "collectors training",
    "runs",
    "algorithms export offline",
    "build",
    "trainers gym_vec_env __main__",
)
LEVEL = {name: level for level, row in enumerate(ROWS) for name in row.split()}
MODULES = sorted(p for p in (ROOT / "rlox").rglob("*.py") if p != ROOT / "rlox" / "__init__.py")
RUNNER = sorted((ROOT / "rlox_cli").rglob("*.py"))


def imported(source: str) -> Iterator[str]:
    """Yield the full names of imports in `source`, also inside functions and TYPE_CHECKING blocks."""
    yield from names_imported(ast.parse(source))


def names_imported(tree: ast.AST) -> Iterator[str]:
    """Yield the full names of imports in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute, so that their direction can be read"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def upward(home: str, source: str) -> list[str]:
    """Return the imports of a module in package `home` from a higher row or from outside the library."""
    rooms = [name.split(".")[:2] for name in imported(source)]
    return [
        ".".join(room)
        for room in rooms
        if room[0] == "rlox_cli"
        or (room[0] == "rlox" and (len(room) == 1 or LEVEL.get(room[1], 99) > LEVEL[home]))
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_module_imports_only_from_its_own_row_and_the_rows_below(path):
    home = path.relative_to(ROOT / "rlox").parts[0].removesuffix(".py")
    assert home in LEVEL, f"rlox/{home} stands in no row of {Path(__file__).name}"
    assert upward(home, path.read_text(encoding="utf-8")) == []


def test_upward_imports_are_found_inside_functions_and_in_every_form():
    assert upward("envs", "def f():\n    from rlox.training import loop") == ["rlox.training"]
    assert upward("envs", "import rlox_cli.main") == ["rlox_cli.main"]
    assert upward("envs", "import rlox") == ["rlox"]
    assert upward("training", "import rlox.envs.make, torch\nfrom rlox import types") == []


def run_time_imports(source: str, modules: Collection[str]) -> set[str]:
    """Return those of `modules` that a source imports at run time, also inside functions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    parts = [name.split(".") for name in names_imported(tree)]
    return {".".join(name[:n]) for name in parts for n in range(2, len(name) + 1)} & set(modules)


def circles(sources: Mapping[str, str]) -> list[str]:
    """Return the modules from which imports lead back to themselves."""
    imports = {name: run_time_imports(text, sources) - {name} for name, text in sources.items()}
    found = []
    for name in imports:
        pending, reached = set(imports[name]), set[str]()
        while pending:
            module = pending.pop()
            reached.add(module)
            pending |= imports[module] - reached
        found += [name] if name in reached else []
    return found


def test_no_files_of_the_library_import_one_another_in_a_circle():
    """Imports through a package's `__init__` are not followed."""
    paths = (p for p in MODULES if p.name != "__init__.py")
    names = {".".join(p.relative_to(ROOT).with_suffix("").parts): p.read_text("utf-8") for p in paths}
    assert circles(names) == []


def test_a_circle_is_found_when_one_of_its_imports_is_inside_a_function():
    sources = {
        "rlox.a": "from rlox.b import x",
        "rlox.b": "def f():\n    import rlox.c",
        "rlox.c": "from rlox import a",
        "rlox.d": "from rlox.a import y\nif TYPE_CHECKING:\n    from rlox.e import T",
        "rlox.e": "import rlox.d",
    }
    assert circles(sources) == ["rlox.a", "rlox.b", "rlox.c"]


@pytest.mark.parametrize("path", RUNNER, ids=lambda p: p.name)
def test_the_runner_uses_the_library_by_its_modules(path):
    names = [n for n in imported(path.read_text(encoding="utf-8")) if n.split(".")[0] == "rlox"]
    assert [n for n in names if n != "rlox" and n.split(".")[1] not in LEVEL] == []


@pytest.mark.parametrize(
    "code",
    [
        "import rlox, rlox.configs, rlox.errors",
        "import rlox; rlox.VecEnv(n=1, seed=0)",
        "from rlox_cli.main import main; assert main(['train', '--cfg', 'job']) == 0",
        "from rlox_cli.main import main; assert main(['train', 'algo.clpi=1']) == 2",
    ],
)
def test_importing_rlox_and_composing_a_config_imports_no_torch(code, workdir):
    check = f"import sys; {code}; sys.exit('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr or "torch was imported"
    assert list(workdir.iterdir()) == []
