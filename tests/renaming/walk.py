"""Walks two trees side by side and says where they differ, but for names that may change."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence

from renaming.sources import Source

# fields with an identifier whose binding the scopes show, by type of node
BOUND = {
    (ast.Name, "id"), (ast.arg, "arg"), (ast.FunctionDef, "name"), (ast.AsyncFunctionDef, "name"),
    (ast.ClassDef, "name"), (ast.ExceptHandler, "name"), (ast.MatchAs, "name"), (ast.MatchStar, "name"),
    (ast.MatchMapping, "rest"),
}  # fmt: skip
OWNED = {(ast.Attribute, "attr"), (ast.keyword, "arg"), (ast.MatchClass, "kwd_attrs")}
WORD = re.compile(r"\w+|\W")
Import = ast.Import | ast.ImportFrom


class Difference(Exception):
    """Something other than a name changed."""


class Walk:
    """Pairs of nodes of two trees, and the places where attributes, keywords and strings changed."""

    def __init__(
        self,
        before: Source,
        after: Source,
        pairs: Collection[tuple[str, str]],
        modules: Mapping[str, str],
    ) -> None:
        self.before, self.after, self.allowed, self.modules = before, after, pairs, modules
        self.pairs: dict[ast.AST, ast.AST] = {}
        self.changed: list[tuple[int, int, str, str]] = []  # range of bytes before, old and new name

    def fail(self, node: ast.AST, why: str) -> Difference:
        """The error at a node of before."""
        return Difference(f"{self.before.path}:{getattr(node, 'lineno', 1)}: {why}")

    def bodies(self, old: Sequence[ast.AST], new: Sequence[ast.AST]) -> None:
        """Compare lists of statements; imports that follow each other have no order."""
        first, second = _runs(old), _runs(new)
        for mine, theirs in zip(first, second, strict=False):
            if isinstance(mine, list) and isinstance(theirs, list):
                self._imports(mine, theirs)
            elif isinstance(mine, list) or isinstance(theirs, list):
                raise self.fail(mine[0] if isinstance(mine, list) else mine, "imports changed")
            else:
                self.nodes(mine, theirs)
        if len(first) != len(second):
            longer = first if len(first) > len(second) else second
            extra = longer[min(len(first), len(second))]
            node = extra[0] if isinstance(extra, list) else extra
            word = "is gone" if longer is first else "is new"
            raise self.fail(node, f"`{ast.unparse(node).splitlines()[0][:80]}` {word}")

    def nodes(self, old: ast.AST, new: ast.AST) -> None:
        """Compare two nodes."""
        if type(old) is not type(new):
            raise self.fail(old, f"{_shown(old)} became {_shown(new)}")
        self.pairs[old] = new
        if _is_all(old) and _is_all(new):
            self._unordered(old, new)
            return
        for name in old._fields:
            mine, theirs = getattr(old, name, None), getattr(new, name, None)
            if isinstance(mine, list) and isinstance(theirs, list):
                self._lists(old, name, mine, theirs)
            elif isinstance(mine, ast.AST) and isinstance(theirs, ast.AST):
                self.nodes(mine, theirs)
            elif mine != theirs or type(mine) is not type(theirs):
                self._values(old, name, mine, theirs)

    def _lists(self, old: ast.AST, name: str, mine: list[object], theirs: list[object]) -> None:
        if any(isinstance(item, ast.stmt) for item in mine + theirs):
            self.bodies(mine, theirs)  # type: ignore[arg-type]
            return
        if len(mine) != len(theirs):
            raise self.fail(old, f"{_shown(old)}: {len(mine)} {name} became {len(theirs)}")
        for one, other in zip(mine, theirs, strict=True):
            if isinstance(one, ast.AST) and isinstance(other, ast.AST):
                self.nodes(one, other)
            elif one != other:
                self._values(old, name, one, other)

    def _values(self, node: ast.AST, name: str, mine: object, theirs: object) -> None:
        kind = (type(node), name)
        if isinstance(mine, str) and isinstance(theirs, str):
            if kind in BOUND or isinstance(node, ast.Global | ast.Nonlocal):
                return  # the bindings are compared afterwards
            if kind in OWNED and (mine, theirs) in self.allowed:
                self._change(node, mine, theirs)
                return
            if isinstance(node, ast.Constant) and self._string(node, mine, theirs):
                return
        raise self.fail(node, f"{_shown(node)}: {name} {mine!r} became {theirs!r}")

    def _change(self, node: ast.AST, mine: str, theirs: str) -> None:
        source = self.before
        if isinstance(node, ast.Attribute):
            place = source.offset(node.end_lineno or 0, node.end_col_offset or 0) - len(mine.encode())
        else:
            place = source.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
            place = max(place, source.find_word(mine, place))
        self.changed.append((place, place + 1, mine, theirs))

    def _string(self, node: ast.Constant, mine: str, theirs: str) -> bool:
        """Whether only words of a string changed, each by a row."""
        first, second = WORD.findall(mine), WORD.findall(theirs)
        if len(first) != len(second):
            return False
        changed = [(one, other) for one, other in zip(first, second, strict=True) if one != other]
        if not all(pair in self.allowed for pair in changed):
            return False
        start = self.before.offset(node.lineno, node.col_offset)
        end = self.before.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        self.changed += [(start, end, one, other) for one, other in changed]
        return True

    def _unordered(self, old: ast.AST, new: ast.AST) -> None:
        """`__all__`: the same names in any order."""
        mine, theirs = (sorted(_strings(node)) for node in (old, new))
        left = list(theirs)
        for name in mine:
            match = next((other for other in left if other == name or (name, other) in self.allowed), None)
            if match is None:
                raise self.fail(old, f"{name} of __all__ is gone")
            left.remove(match)
        if left:
            raise self.fail(old, f"{left[0]} of __all__ is new")
        for one, other in zip(ast.walk(old), ast.walk(new), strict=False):
            self.pairs.setdefault(one, other)

    # -- imports

    def _imports(self, old: list[Import], new: list[Import]) -> None:
        mine = [(node, alias) for node in old for alias in node.names]
        left = [(node, alias) for node in new for alias in node.names]
        exact = sorted(mine, key=lambda item: not any(self._fit(item, o, exactly=True) for o in left))
        for item in exact:
            fits = [other for other in left if self._fit(item, other, exactly=True)]
            fits = fits or [other for other in left if self._fit(item, other)]
            if not fits:
                raise self.fail(
                    item[0],
                    f"`{ast.unparse(item[0])[:80]}`: {item[1].name} is not imported any more",
                )
            left.remove(fits[0])
            self.pairs[item[1]] = fits[0][1]
        if left:
            raise self.fail(old[0], f"`{ast.unparse(left[0][0])[:80]}`: {left[0][1].name} is imported too")

    def _fit(
        self,
        mine: tuple[Import, ast.alias],
        theirs: tuple[Import, ast.alias],
        exactly: bool = False,
    ) -> bool:
        (node, alias), (other_node, other) = mine, theirs
        if type(node) is not type(other_node):
            return False
        if isinstance(node, ast.ImportFrom) and isinstance(other_node, ast.ImportFrom):
            if node.level != other_node.level or not self._module(
                node.module or "", other_node.module or "", node.level
            ):
                return False
            is_same = alias.name == other.name
        else:
            is_same = self._module(alias.name, other.name, 0)
        if exactly:
            return is_same and alias.asname == other.asname
        is_renamed = is_same or (alias.name, other.name) in self.allowed
        is_kept = other.asname == (alias.asname or alias.name)
        is_bound = alias.asname == other.asname or is_kept or (alias.asname, other.asname) in self.allowed
        return is_renamed and is_bound

    def _module(self, mine: str, theirs: str, level: int) -> bool:
        if mine == theirs or self.modules.get(mine) == theirs:
            return True
        return level > 0 and (mine.rpartition(".")[2], theirs.rpartition(".")[2]) in self.allowed


def _runs(statements: Sequence[ast.AST]) -> list[ast.AST | list[Import]]:
    """Statements, with imports that follow each other as one list."""
    found: list[ast.AST | list[Import]] = []
    for statement in statements:
        if isinstance(statement, Import):
            if not found or not isinstance(found[-1], list):
                found.append([])
            found[-1].append(statement)  # type: ignore[union-attr]
        else:
            found.append(statement)
    return found


def _is_all(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    )


def _strings(node: ast.AST) -> list[str]:
    return [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def _shown(node: ast.AST) -> str:
    return f"`{ast.unparse(node).splitlines()[0][:60]}`" if hasattr(node, "lineno") else type(node).__name__
