"""The table of names: its rows, and the names that no row may change."""

from __future__ import annotations

import ast
import csv
import keyword
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from renaming.program import Member, Program, Thing
from renaming.scopes import Binding, Scope
from renaming.sources import EXAMPLES_AS_PRINTED, module_name

MODULE_KINDS = ("module", "file")
TYPED_KEYS = "rlox/configs/"  # fields of classes in this folder are keys that users type


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    kind: str
    path: str
    scope: str
    old: str
    new: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.scope}" if self.scope else self.path
        return f"{self.kind} {where} {self.old} -> {self.new}"

    @property
    def new_path(self) -> str:
        """Where a row that renames a module moves it."""
        suffix = PurePosixPath(self.path).suffix
        new = self.new.removesuffix(suffix) + suffix
        return new if "/" in new else str(PurePosixPath(self.path).with_name(new))


@dataclass
class Choice:
    """Rows by what they rename, and those that rename nothing."""

    wanted: dict[Thing, list[Row]] = field(default_factory=dict)
    moves: dict[str, Row] = field(default_factory=dict)  # by path
    skipped: list[tuple[Row, str]] = field(default_factory=list)
    refused: list[tuple[Row, str]] = field(default_factory=list)


def read_table(path: Path, packages: Sequence[str] = ()) -> list[Row]:
    """The rows about Python files of these folders, or of all."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [Row(line["kind"], line["path"], line["scope"] or "", line["old"], line["new"]) for line in lines]
    rows = [row for row in rows if row.path.endswith(".py") and not row.kind.startswith("rust")]
    inside = tuple(package.rstrip("/") + "/" for package in packages)
    return [row for row in rows if not inside or row.path.startswith(inside) or row.path in packages]


def choose(program: Program, rows: Iterable[Row], root: Path) -> Choice:
    """Find what each row renames."""
    choice = Choice()
    frozen = Frozen(program, root)
    for row in rows:
        if row.path not in program.sources:
            choice.skipped.append((row, "no such file"))
        elif row.kind in MODULE_KINDS:
            _choose_module(program, row, choice, frozen)
        elif not row.new.isidentifier() or keyword.iskeyword(row.new):
            choice.refused.append((row, "the new name is not an identifier"))
        elif row.old == row.new:
            choice.skipped.append((row, "old and new name are the same"))
        else:
            _choose_name(program, row, choice, frozen)
    return choice


def _choose_module(program: Program, row: Row, choice: Choice, frozen: Frozen) -> None:
    target = row.new_path
    reason = frozen.module(module_name(row.path))
    if reason or row.path.endswith("__init__.py"):
        choice.refused.append((row, reason or "packages are not moved"))
    elif not PurePosixPath(target).stem.isidentifier():
        choice.refused.append((row, "the new name is not an identifier"))
    else:
        choice.moves[row.path] = row


def _choose_name(program: Program, row: Row, choice: Choice, frozen: Frozen) -> None:
    things = list(dict.fromkeys(_things(program, row)))
    if not things:
        choice.skipped.append((row, "no such name"))
        return
    reason = next((reason for thing in things if (reason := frozen.reason(thing))), "")
    if reason:
        choice.refused.append((row, reason))
        return
    for thing in things:
        if isinstance(thing, Binding) and thing.imports and not any(alias for *_, alias in thing.imports):
            choice.skipped.append((row, "imported: the row of its definition decides"))
            return
    for thing in things:
        choice.wanted.setdefault(thing, []).append(row)


def _things(program: Program, row: Row) -> Iterable[Thing]:
    scopes = program.scopes[row.path]
    for scope in scopes.named(row.scope):
        if scope.kind == "class":
            name = program.class_name[scope]
            if row.old in program.facts(name).names:
                yield ("member", name, row.old)
            continue
        for inner in scope.walk():  # comprehensions too
            if inner.function() is scope and row.old in inner.bindings and row.old not in inner.outer:
                yield inner.bindings[row.old]


class Frozen:
    """Names that are typed, saved or promised."""

    def __init__(self, program: Program, root: Path) -> None:
        self.program = program
        self.public: set[tuple[str, str]] = set()  # module and name that examples of the seeds import
        self.used: set[str] = set()  # attributes and keywords in them
        for path in sorted((root / EXAMPLES_AS_PRINTED).glob("*.py")):
            self._read_example(ast.parse(path.read_text(encoding="utf-8")))
        self.origins: set[object] = set()
        for module, name in self.public:
            binding = program.global_binding(module, name)
            if binding is not None:
                self.origins.add(program.origin(binding))

    def _read_example(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                self.public |= {(node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Attribute):
                self.used.add(node.attr)
            elif isinstance(node, ast.keyword) and node.arg:
                self.used.add(node.arg)

    def module(self, name: str) -> str:
        """Why a module may not be renamed; empty if it may."""
        return "examples of the seeds import it" if name in {module for module, _ in self.public} else ""

    def reason(self, thing: Thing) -> str:
        """Why a name may not be renamed; empty if it may."""
        if isinstance(thing, Binding):
            return self._binding(thing)
        return self._member(thing) if len(thing) == 3 else self.module(thing[1])

    def _binding(self, binding: Binding) -> str:
        if binding in self.origins:
            return "examples of the seeds import it"
        if _is_special(binding.name):
            return "a name with a meaning in Python"
        if "parameter" in binding.kinds and binding.name in self.used:
            outer: Scope | None = binding.scope
            while outer is not None:
                if any(self._defines(origin, outer) for origin in self.origins):
                    return "examples of the seeds name it"
                outer = outer.parent
        return ""

    def _defines(self, origin: object, scope: Scope) -> bool:
        return isinstance(origin, Binding) and scope.node in origin.nodes

    def _member(self, member: Member) -> str:
        _, name, attribute = member
        scope = self.program.classes[name]
        if _is_special(attribute):
            return "a name with a meaning in Python"
        if self.program.path(scope).startswith(TYPED_KEYS) and is_field(scope, attribute):
            return "a config key"
        if _is_param(scope, attribute):
            return "an option that is typed"
        if attribute in self.used and self._is_public(name):
            return "examples of the seeds name it"
        return ""

    def _is_public(self, name: str) -> bool:
        public = {self.program.class_of_binding(o) for o in self.origins if isinstance(o, Binding)}
        related = set(self.program.facts(name).lookup) | set(self.program.subclasses.get(name, ()))
        return bool(related & public)


def is_field(scope: Scope, name: str) -> bool:
    """Whether a class annotates a name in its body, as dataclasses do."""
    assert isinstance(scope.node, ast.ClassDef)
    return any(
        isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id == name
        and "ClassVar" not in ast.unparse(node.annotation)
        for node in scope.node.body
    )


def _is_param(scope: Scope, name: str) -> bool:
    assert isinstance(scope.node, ast.ClassDef)
    for node in scope.node.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            value = node.value
            if isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "param":
                return True
    return False


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
