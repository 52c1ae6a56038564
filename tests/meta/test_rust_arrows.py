"""Tests that imports inside each crate point down, in the order of the tables below, without cycles.

A "room" is a module of the crate's root, a file or a folder. The imports of a file come from its `use` lines
and from the paths in its code (`crate::`, `super::`, `self::`). They are followed through re-exports to the
file that defines the name. Tests, inside a file or in their own file, may import anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Lowest first; a room may use its own row and the rows before it.
ROOMS = {
    "rlox-core": (
        "error",
        "dtype interrupt row_copy space threads",
        "field layout math shared tensor",
        "orthogonal params seed",
        "advantage env stats store",
        "buffer llm policy",
        "rollout",
    ),
    "rlox-burn": ("error", "net", "loss", "actor_critic deterministic q_network"),
    "rlox-candle": ("error", "net", "loss", "actor_critic deterministic q_network"),
    "rlox-nn": ("cpu", "exported traits"),
    "rlox-python": (
        "errors interpreter sync",
        "memory",
        "convert detach",
        "advantage env seed stats threads",
        "buffer llm",
        "nn",
    ),
}
# A module of tests may have attributes besides `#[cfg(test)]`.
TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[[^\n]*\n)*mod \w+ \{\n.*?^\}\n", re.M | re.S)
TEST_FILE = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[[^\n]*\n)*(?:pub(?:\([^)]*\))? )?mod (\w+);", re.M)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
TEXT = re.compile(r'"(?:\\.|[^"\\])*"', re.S)
USE = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", re.M)
PATH = re.compile(r"(?<![\w:])\$?(?:crate|super|self)(?:::\w+)+")
Module = tuple[str, ...]


def module_of(file: str) -> Module:
    """Return the module of a file: `buffer/rows/mod.rs` is `(buffer, rows)`, `lib.rs` is the root."""
    parts = PurePosixPath(file).with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib") else parts


def expanded(tree: str) -> Iterator[list[str]]:
    """Yield the paths of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    tree = tree.strip()
    if "{" not in tree:
        yield [part.strip() for part in tree.split(" as ")[0].split("::")]
        return
    head, rest = tree.split("{", 1)
    rest = rest[: rest.rindex("}")]
    depth, begin = 0, 0
    for at, letter in enumerate(rest + ","):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            if part := rest[begin:at].strip():
                yield from (
                    [*filter(None, head.strip().removesuffix("::").split("::")), *path]
                    for path in expanded(part)
                )
            begin = at + 1


def renamed(tree: str, path: list[str]) -> str:
    """Return the name that a path of a use tree gets."""
    found = re.search(rf"\b{path[-1]}\s+as\s+(\w+)", tree)
    return found[1] if found else path[-1]


class Crate:
    """The files of a crate and the imports between them."""

    def __init__(self, sources: dict[str, str]) -> None:
        tests = {
            (*module_of(file), name) for file, text in sources.items() for name in TEST_FILE.findall(text)
        }
        sources = {file: text for file, text in sources.items() if module_of(file) not in tests}
        self.files = {module_of(file): file for file in sources}
        self.exports: dict[Module, dict[str, list[str]]] = {}
        found: dict[Module, list[list[str]]] = {}
        for file, text in sources.items():
            module = module_of(file)
            code = COMMENT.sub("", TEXT.sub('""', TESTS.sub("", text)))
            uses = [(bool(public), tree) for public, tree in USE.findall(code)]
            paths = [m.replace("$", "").split("::") for m in PATH.findall(USE.sub("", code))]
            for public, tree in uses:
                for path in expanded(tree):
                    if public:
                        self.exports.setdefault(module, {})[renamed(tree, path)] = path
                    # a folder's own file declares the folder's content; that is no arrow
                    if not (public and file.endswith(("mod.rs", "lib.rs"))):
                        paths.append(path)
            found[module] = paths
        self.arrows = {self.files[module]: self.targets(module, paths) for module, paths in found.items()}

    def targets(self, module: Module, paths: list[list[str]]) -> set[str]:
        files = {file for path in paths for file in self.resolve(module, path)}
        return files - {self.files[module]}

    def absolute(self, module: Module, path: list[str]) -> Module | None:
        """Return the path from the root; None if it leads out of the crate."""
        first, *rest = path
        if first == "crate":
            return tuple(rest)
        if first == "self":
            return module + tuple(rest)
        base = module
        while path and path[0] == "super":
            base, path = base[:-1], path[1:]
        if first == "super":
            return base + tuple(path)
        inside = (*module, first) in self.files or first in self.exports.get(module, {})
        return module + tuple(path) if inside else None

    def resolve(self, module: Module, path: list[str], depth: int = 0) -> set[str]:
        """Return the file that defines the name of a path, and files that re-export it.

        Re-exporting files also have to be lower, unless they are a folder's own file.
        """
        target = self.absolute(module, path)
        if target is None or depth > 8:
            return set()
        known = max((target[:n] for n in range(len(target) + 1) if target[:n] in self.files), key=len)
        rest = target[len(known) :]
        passed = self.exports.get(known, {}).get(rest[0]) if rest else None
        if passed is None:
            return {self.files[known]}
        onward = self.resolve(known, [*passed, *rest[1:]], depth + 1)
        folder = self.files[known].endswith(("mod.rs", "lib.rs"))
        return onward if folder and onward else onward | {self.files[known]}


def read(crate: str) -> Crate:
    folder = ROOT / "rust" / crate / "src"
    files = sorted(folder.rglob("*.rs"))
    return Crate({str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in files})


def circles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of files that all reach each other, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(arrows):
        if node not in order:
            visit(node)
    return found


def room(file: str) -> str:
    return PurePosixPath(file).parts[0].removesuffix(".rs")


def upward(arrows: dict[str, set[str]], rows: Iterable[str]) -> list[str]:
    """Return the arrows from a room to one of a higher row, or to or from one without a row."""
    level = {name: at for at, row in enumerate(rows) for name in row.split()}
    return [
        f"{file} -> {other}"
        for file, others in sorted(arrows.items())
        for other in sorted(others)
        if room(file) != "lib" and level.get(room(other), 99) > level.get(room(file), -1)
    ]


def between_folders(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """Convert a crate's arrows to arrows between a file and a folder beside it, or between two folders."""
    found: dict[str, set[str]] = {}
    for file, others in arrows.items():
        for other in others:
            one, two = PurePosixPath(file).parts, PurePosixPath(other).parts
            shared = next(i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b)
            # a folder's own file is below the folder's other files or above them; both together are a cycle
            ends = ["/".join(parts[: shared + 1]) for parts in (one, two)]
            found.setdefault(ends[0], set()).add(ends[1])
    return found


@pytest.mark.parametrize("crate", ROOMS)
def test_rooms_use_their_own_row_and_the_rows_below(crate):
    arrows = read(crate).arrows
    rooms = {room(file) for file in arrows} - {"lib"}
    unknown = rooms - {name for row in ROOMS[crate] for name in row.split()}
    assert unknown == set(), "they stand in no row of this file"
    assert upward(arrows, ROOMS[crate]) == []


@pytest.mark.parametrize("crate", ROOMS)
def test_no_files_of_a_rust_crate_import_each_other_in_a_cycle(crate):
    assert circles(read(crate).arrows) == []


@pytest.mark.parametrize("crate", ROOMS)
def test_no_folders_of_a_rust_crate_import_each_other_in_a_cycle(crate):
    assert circles(between_folders(read(crate).arrows)) == []


def test_known_imports_of_the_core_crate_are_found():
    arrows = read("rlox-core").arrows
    assert {"error.rs", "seed.rs"} <= arrows["env/vec_env.rs"]  # `use crate::`
    assert "env/angles.rs" in arrows["env/cartpole.rs"]  # `use super::`
    assert "env/actions.rs" in arrows["env/cartpole.rs"]  # a name that env/mod.rs re-exports
    assert any("dtype.rs" in others for others in arrows.values())  # `crate::Dtype`
    assert sum(map(len, arrows.values())) > 150


def test_upward_rust_imports_are_found_in_every_form():
    files = {"lib.rs": "mod low;\npub mod high;\n", "low.rs": "", "high.rs": "use crate::low::a;\n"}
    for line in (
        "use crate::{high::X};",
        "pub(crate) use super::high::X;",
        "fn f() {\n    use crate::high;\n}",
        "fn f() -> crate::high::X { todo }",
        "macro_rules! m { () => { $crate::high::X } }",
    ):
        arrows = Crate(files | {"low.rs": line}).arrows
        assert upward(arrows, ("low", "high")) == ["low.rs -> high.rs"], line
        assert circles(arrows) == [["high.rs", "low.rs"]], line
    for line in (
        "//! see crate::high::X",
        'const A: &str = "crate::high::X";',
        "#[cfg(test)]\nmod tests {\n    use crate::high::X;\n}\n",
        '#[cfg(test)]\n#[expect(lint, reason = "it is exact")]\nmod tests {\n    use crate::high::X;\n}\n',
        "use high::X;",
        "use std::sync::Arc;",
    ):
        assert upward(Crate(files | {"low.rs": line}).arrows, ("low", "high")) == [], line


def test_a_file_of_tests_is_no_part_of_the_crate():
    files = {
        "lib.rs": "mod low;\npub mod high;\n",
        "low.rs": "#[cfg(test)]\nmod tests;\nmod plain;\n",
        "low/tests.rs": "use crate::high::X;\n",
        "low/plain.rs": "",
        "high.rs": "use crate::low::a;\n",
    }
    arrows = Crate(files).arrows
    assert set(arrows) == set(files) - {"low/tests.rs"}
    assert upward(arrows, ("low", "high")) == []
    undeclared = Crate(files | {"low.rs": "mod tests;\nmod plain;\n"}).arrows
    assert upward(undeclared, ("low", "high")) == ["low/tests.rs -> high.rs"]


def test_names_are_followed_through_re_exports_to_their_files():
    files = {
        "lib.rs": "mod a;\nmod b;\npub use a::one::One as First;\n",
        "a/mod.rs": "mod one;\nmod two;\npub use one::One;\npub(crate) use self::two::Two;\n",
        "a/one.rs": "use super::Two;\nuse crate::b::{self, c};\n",
        "a/two.rs": "use crate::First;\n",
        "b.rs": "",
    }
    arrows = Crate(files).arrows
    assert arrows["a/one.rs"] == {"a/two.rs", "b.rs"}
    assert arrows["a/two.rs"] == {"a/one.rs"}
    assert arrows["a/mod.rs"] == set() and arrows["lib.rs"] == set()
    assert circles(arrows) == [["a/one.rs", "a/two.rs"]]
    folders = {"x/p.rs": {"y/p.rs"}, "y/q.rs": {"x/q.rs"}, "y/p.rs": set(), "x/q.rs": set()}
    assert circles(folders) == []
    assert circles(between_folders(folders)) == [["x", "y"]]


def test_a_rust_module_without_a_row_is_reported():
    assert upward({"new.rs": {"old.rs"}, "old.rs": set()}, ("old",)) == ["new.rs -> old.rs"]
