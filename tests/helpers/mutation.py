"""Small changes of Python code that a test should notice: finds their places and makes them.

A site is a place in a file and its replacement text. Everything else stays byte for byte, so the diff of a
mutant is only the change.
"""

from __future__ import annotations

import ast
import difflib
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*",
    ast.Pow: "*", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip


@dataclass(frozen=True, order=True)
class Site:
    """A replacement of the characters `begin` to `end` of a file."""

    path: Path
    begin: int
    end: int
    new: str
    description: str

    def apply(self, source: str) -> str:
        """Return the source with the change."""
        return source[: self.begin] + self.new + source[self.end :]


class _Finder(ast.NodeVisitor):
    """Collects the sites of a file; annotations, docstrings and `__all__` are not code that runs."""

    def __init__(self, path: Path, source: str) -> None:
        self.path, self.source, self.sites = path, source, list[Site]()
        # The ast module counts columns in bytes.
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line.encode()))
        self.bytes = source.encode()

    def at(self, line: int, column: int) -> int:
        """Return the character index of a position in the syntax tree."""
        return len(self.bytes[: self.starts[line - 1] + column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def text(self, node: ast.expr) -> str:
        begin, end = self.span(node)
        return self.source[begin:end]

    def add(self, begin: int, end: int, new: str, description: str) -> None:
        self.sites.append(Site(self.path, begin, end, new, description))

    def swap(self, left: ast.expr, right: ast.expr, old: str, new: str, description: str) -> None:
        """Replace the operator between two operands, which may be in brackets."""
        begin, end = self.span(left)[1], self.span(right)[0]
        between = self.source[begin:end]
        if between.count(old) == 1 and "#" not in between:
            at = begin + between.index(old)
            self.add(at, at + len(old), new, description)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *(d for d in node.args.kw_defaults if d), *node.body):
            self.visit(part)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip f-strings: before Python 3.12 positions inside are relative to the resulting text."""

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            new = COMPARISONS[type(op)]
            old = _text_of(op)
            self.swap(left, right, old, new, f"{old} becomes {new}")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        new, old = OPERATORS.get(type(node.op)), _text_of(node.op)
        if new and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            self.swap(node.left, node.right, old, new, f"{old} becomes {new}")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.swap(left, right, old, new, f"{old} becomes {new}")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            begin, _ = self.span(node)
            operand, _ = self.span(node.operand)
            description = "not dropped" if isinstance(node.op, ast.Not) else "minus dropped"
            if self.source[begin:operand].strip() in ("not", "-"):
                self.add(begin, operand, "", description)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        begin, end = self.span(node)
        if isinstance(node.value, bool):
            self.add(begin, end, str(not node.value), f"{node.value} becomes {not node.value}")
        elif isinstance(node.value, int):
            new = str(node.value + 1)
            self.add(begin, end, new, f"{self.source[begin:end]} becomes {new}")

    def visit_Return(self, node: ast.Return) -> None:
        plain = isinstance(node.value, ast.Constant) and node.value.value is None
        if node.value is not None and not plain:
            self.add(*self.span(node.value), "None", "returns None")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not _is_of_types(node.test):
            self.add(*self.span(node.test), "False", "a branch is never taken")
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add(*self.span(node), f"({self.text(node.body)})", "always the first of two values")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        # The order of their arguments has no effect.
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            self.generic_visit(node)
            return
        for left, right in zip(node.args, node.args[1:], strict=False):
            if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
                begin, end = self.span(left)[0], self.span(right)[1]
                between = self.source[self.span(left)[1] : self.span(right)[0]]
                if "#" not in between and self.text(left) != self.text(right):
                    new = self.text(right) + between + self.text(left)
                    self.add(begin, end, new, "two arguments change places")
        self.generic_visit(node)


def _text_of(op: ast.cmpop | ast.operator) -> str:
    tokens: dict[type[ast.AST], str] = {
        ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
        ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+",
        ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
        ast.BitAnd: "&", ast.BitOr: "|",
    }  # fmt: skip
    return tokens.get(type(op), "")


def _is_of_types(test: ast.expr) -> bool:
    """Return whether a test is `if TYPE_CHECKING:` or `if __name__ == ...:`, which do not run in tests."""
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    return bool(names & {"TYPE_CHECKING", "__name__"})


def sites(path: Path, source: str) -> list[Site]:
    """Return every change of a file that leaves valid Python."""
    return [site for site in _all_sites(path, source) if _parses(site.apply(source))]


def _all_sites(path: Path, source: str) -> list[Site]:
    """Return every change, also those that leave invalid Python."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(set(finder.sites))


def _parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def draw(files: Sequence[Path], root: Path, seed: int, count: int) -> list[Site]:
    """Return `count` different sites of the files of `root`, in the drawn order; fewer if there are fewer.

    The probability of a file is proportional to the number of its sites. The draw depends only on the files'
    contents, their names and the seed.
    """
    sources = {file.relative_to(root): file.read_text(encoding="utf-8") for file in sorted(files)}
    every = [site for path, source in sources.items() for site in _all_sites(path, source)]
    random.Random(seed).shuffle(every)
    # Parse only drawn sites: each parse takes time proportional to the file's length.
    fit = (site for site in every if _parses(site.apply(sources[site.path])))
    return list(islice(fit, count))


def diff(site: Site, source: str) -> str:
    """Return the change as a unified diff without context."""
    name = site.path.as_posix()
    before, after = source.splitlines(keepends=True), site.apply(source).splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, name, name, n=0))


@functools.cache  # each mutant asks for the same files
def imports(source: str, package: str) -> frozenset[str]:
    """Return the dotted names of a file's imports in `package`: modules, and names that may be modules."""
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            above = ".".join(parents) if node.level else ""
            module = ".".join(filter(None, [above, node.module]))
            found.update([module, *(f"{module}.{alias.name}" for alias in node.names)])
    return frozenset(found)
