"""Draws identifiers and sentences of a commit by a seed, for readers who judge whether they are plain."""

from __future__ import annotations

import ast
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

FOLDERS = ("rlox", "rlox_cli", "rust")
# names that Rust code declares: items, bindings, fields and parameters
RUST_NAME = re.compile(
    r"\b(?:fn|struct|enum|trait|type|mod|const|static)\s+(?P<item>[A-Za-z_]\w*)"
    r"|\blet(?: mut)?\s+(?P<local>[a-z_]\w*)"
    r"|(?:^\s*(?:pub(?:\([a-z]+\))?\s+)?|[(,]\s*)(?P<field>[a-z_]\w*)\s*:(?!:)"
)
RUST_COMMENT = re.compile(r"//.*|\"(?:[^\"\\]|\\.)*\"")

Item = tuple[str, int, str]  # path, line, text


def texts_of(root: Path, commit: str | None) -> dict[str, str]:
    """Paths and texts of the Python and Rust files of a commit; of the working tree where it is `None`."""
    listing = ("ls-files", "--") if commit is None else ("ls-tree", "-r", "--name-only", commit)
    paths = [p for p in _git(root, *listing, *FOLDERS).splitlines() if p.endswith((".py", ".rs"))]
    if commit is None:
        return {path: (root / path).read_text(encoding="utf-8") for path in paths}
    return {path: _git(root, "show", f"{commit}:{path}") for path in paths}


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, encoding="utf-8").stdout


def identifiers(path: str, text: str) -> Iterator[Item]:
    """Each name that a file declares, once: where it first stands."""
    declared = _rust_names(text) if path.endswith(".rs") else _python_names(ast.parse(text))
    seen = set[str]()
    for line, name in declared:
        if name not in seen and name not in ("self", "cls") and name.strip("_") and not name.startswith("__"):
            seen.add(name)
            yield path, line, name


def _python_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr


def _rust_names(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for match in RUST_NAME.finditer(RUST_COMMENT.sub("", line)):
            yield number, match["item"] or match["local"] or match["field"]


def messages(path: str, text: str) -> Iterator[Item]:
    """Texts of errors that are raised, as they are written."""
    for node in _nodes(path, text):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args[:1]:
                if isinstance(argument, ast.Constant | ast.JoinedStr) and (shown := _shown(argument)):
                    yield path, node.lineno, shown


def help_lines(path: str, text: str) -> Iterator[Item]:
    """Meanings of config fields: the second argument of `param`, which `--help` and the pages show."""
    for node in _nodes(path, text):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "param":
            for argument in node.args[1:2]:
                if shown := _shown(argument):
                    yield path, node.lineno, shown


def docstrings(path: str, text: str) -> Iterator[Item]:
    """Docstrings of modules, classes and functions."""
    for node in _nodes(path, text):
        has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if has_docstring and (docstring := ast.get_docstring(node)):
            yield path, getattr(node, "lineno", 1), docstring


def _nodes(path: str, text: str) -> Iterator[ast.AST]:
    if path.endswith(".py"):
        yield from ast.walk(ast.parse(text))


def _shown(node: ast.expr) -> str:
    """A text with the expressions of an f-string in braces; empty for another expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    return ""


KINDS: dict[str, Callable[[str, str], Iterator[Item]]] = {
    "identifiers": identifiers,
    "messages": messages,
    "help": help_lines,
    "docstrings": docstrings,
}


def draw(root: Path, kind: str, commit: str | None, seed: int, count: int) -> list[Item]:
    """`count` items of a kind, drawn without replacement from all of the commit's, in order of place."""
    found = [
        item for path, text in sorted(texts_of(root, commit).items()) for item in KINDS[kind](path, text)
    ]
    return sorted(random.Random(seed).sample(found, min(count, len(found))))
