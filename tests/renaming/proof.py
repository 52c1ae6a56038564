"""The proof that only names changed: the trees of before and after are equal but for rows of the table.

Two trees are walked side by side. Where identifiers differ, a row has to have both, and every name has to
mean the same binding before and after, so that nothing was captured. Docstrings, comments, the order of
imports and of `__all__` are left aside. Attributes and keywords, whose owner a tree does not show, have to
be in the record that `apply` left, or are listed as changed by hand.
"""

from __future__ import annotations

import ast
import io
import json
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from renaming.binder import bind
from renaming.scopes import Binding, Function, Reference, Scopes
from renaming.sources import EXAMPLES_AS_PRINTED, Source, module_name, read_sources
from renaming.table import MODULE_KINDS, Row
from renaming.walk import Difference, Walk


@dataclass
class Allowed:
    """What the rows allow."""

    pairs: set[tuple[str, str]] = field(default_factory=set)
    by_place: set[tuple[str, str, str, str]] = field(default_factory=set)  # path, scope, old, new
    parameters: set[tuple[str, str]] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)  # dotted names
    paths: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Allowed:
        """By the rows of a table."""
        allowed = cls()
        for row in rows:
            if row.kind in MODULE_KINDS:
                old, new = module_name(row.path), module_name(row.new_path)
                allowed.modules[old], allowed.paths[row.path] = new, row.new_path
                allowed.pairs.add((old.rpartition(".")[2], new.rpartition(".")[2]))
            else:
                allowed.pairs.add((row.old, row.new))
                allowed.by_place.add((row.path, row.scope, row.old, row.new))
                if row.kind == "parameter":
                    allowed.parameters.add((row.old, row.new))
        return allowed

    def binding(self, path: str, binding: Binding, new: str, functions: set[tuple[str, str]]) -> bool:
        """Whether a binding may have the new name."""
        pair = (binding.name, new)
        scope = binding.scope.function()
        if (path, scope.qualname, *pair) in self.by_place:
            return True
        if "import" in binding.kinds or scope.kind == "class":
            return pair in self.pairs
        return "parameter" in binding.kinds and (pair in self.parameters or pair in functions)


@dataclass
class Result:
    """Of one file."""

    difference: str = ""
    names: int = 0
    places: list[tuple[int, int, str, str]] = field(default_factory=list)  # bytes before, old, new


def compare(before: Source, after: Source, allowed: Allowed) -> Result:
    """Compare one file."""
    scopes_before, scopes_after = bind(before), bind(after)
    walk = Walk(before, after, allowed.pairs, allowed.modules)
    try:
        walk.bodies(without_docstring(before.tree), without_docstring(after.tree))
        names = _same_bindings(walk, scopes_before, scopes_after, before, allowed)
    except Difference as difference:
        return Result(str(difference))
    return Result("", names + len(walk.changed), walk.changed)


def without_docstring(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a module; docstrings are taken out of the whole tree."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | Function)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:]
    return tree.body


def _same_bindings(walk: Walk, before: Scopes, after: Scopes, source: Source, allowed: Allowed) -> int:
    """Check that paired names mean paired bindings; the number of those that were renamed."""
    functions = {(row[2], row[3]) for row in allowed.by_place if not row[1]}
    partner: dict[Binding | None, Binding | None] = {}
    back: dict[Binding | None, Binding | None] = {}
    new_references: dict[ast.AST, list[Reference]] = {}
    for reference in after.references:
        new_references.setdefault(reference.node, []).append(reference)
    seen: dict[ast.AST, int] = {}
    for reference in before.references:
        other_node = walk.pairs.get(reference.node)
        if other_node is None:
            continue
        index = seen.get(reference.node, 0)
        seen[reference.node] = index + 1
        others = new_references.get(other_node, [])
        line = source.line_of(reference.place)
        if index >= len(others):
            raise Difference(f"{source.path}:{line}: {reference.name} is not bound afterwards")
        mine, theirs = reference.binding, others[index].binding
        if mine is None or theirs is None:
            if mine is not theirs or reference.name != others[index].name:
                raise Difference(f"{source.path}:{line}: {reference.name} is another {others[index].name}")
            continue
        if partner.setdefault(mine, theirs) is not theirs or back.setdefault(theirs, mine) is not mine:
            raise Difference(f"{source.path}:{line}: {reference.name} means another {others[index].name}")
    renamed = 0
    for mine, theirs in partner.items():
        if mine is not None and theirs is not None and mine.name != theirs.name:
            renamed += 1
            if not allowed.binding(source.path, mine, theirs.name, functions):
                where = mine.scope.function().qualname
                line = source.line_of(mine.places[0])
                change = f"{mine.name} of {where or 'the module'} to {theirs.name}"
                raise Difference(f"{source.path}:{line}: no row renames {change}")
    return renamed


def read_commit(root: Path, commit: str) -> dict[str, Source]:
    """Python files of a commit."""
    packed = subprocess.run(["git", "archive", commit], cwd=root, check=True, capture_output=True).stdout
    sources = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for entry in archive:
            file = archive.extractfile(entry) if entry.isfile() and entry.name.endswith(".py") else None
            if file is not None and not entry.name.startswith(EXAMPLES_AS_PRINTED):
                sources[entry.name] = Source.parse(entry.name, file.read().decode())
    return sources


def compare_all(
    before: Mapping[str, Source], after: Mapping[str, Source], rows: Sequence[Row]
) -> tuple[list[str], dict[str, Result]]:
    """Differences, and results of all files by their old path."""
    allowed = Allowed.of(rows)
    differences, results, met = [], {}, set()
    for path, source in before.items():
        moved = allowed.paths.get(path, path)
        target = moved if moved in after and (path not in after or path in allowed.paths.values()) else path
        if target not in after:
            differences.append(f"{path}: is not there any more")
            continue
        met.add(target)
        results[path] = compare(source, after[target], allowed)
        if results[path].difference:
            differences.append(results[path].difference)
    differences += [f"{path}: was not there before" for path in after if path not in met]
    return differences, results


def prove(root: Path, commit: str, rows: Sequence[Row], record: Path) -> int:
    """Print the first difference of each file, or how many files are equal; the exit code."""
    differences, results = compare_all(read_commit(root, commit), read_sources(root), rows)
    for difference in differences:
        print(difference)
    if record.exists():
        edits = json.loads(record.read_text(encoding="utf-8"))["edits"]
        for path, result in results.items():
            known = [place for place, _, _ in edits.get(path, ())]
            for start, end, old, new in result.places:
                if not any(start <= place < end for place in known):
                    print(f"by hand: {path}: {old} -> {new} at byte {start}")
    equal = sum(not result.difference for result in results.values())
    names = sum(result.names for result in results.values())
    print(f"{equal} of {len(results)} files are equal; {names} names and places of names were renamed")
    return 1 if differences else 0
