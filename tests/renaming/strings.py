"""Names in import statements and in strings: `__all__`, tables of lazy imports, `module:name`, paths."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from renaming.binder import resolved_module
from renaming.plan import Plan
from renaming.program import Program, Thing
from renaming.sources import Source, module_name
from renaming.strings_of import string_places

DOTTED = re.compile(rb"(?<![\w./-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*)?")
PYTHON_FILE = re.compile(rb"(?<![\w-])[\w-]+(?:/[\w-]+)*\.py\b")
IMPORT_FROM = re.compile(rb"\bfrom ([\w.]+) import ([\w, ]+)")
NAMED_TYPES = ("TypeVar", "ParamSpec", "NewType", "NamedTuple", "namedtuple", "TypedDict", "Enum")


class Strings:
    """Adds the edits of imports and strings to a plan."""

    def __init__(self, program: Program, plan: Plan) -> None:
        self.program, self.plan = program, plan
        self.moved = {module_name(path): module_name(row.new_path) for path, row in plan.choice.moves.items()}
        self.paths = {path: row.new_path for path, row in plan.choice.moves.items()}
        self.globals = self._globals(plan.names)
        for path, source in program.sources.items():
            self._imports(path, source)
            self._tables(path, source)
            for start, end in string_places(source):
                self._string(path, source, start, end)

    def _globals(self, names: Mapping[Thing, str]) -> dict[tuple[str, str], str]:
        found = {}
        for thing, new in names.items():
            if not isinstance(thing, tuple) and thing.scope.kind == "module":
                found[self.program.module_of(thing.scope), thing.name] = new
        return found

    def _new_module(self, name: str) -> str:
        """The new name of a module, or of the moved module that holds it."""
        return self.moved.get(name, name)

    def _imports(self, path: str, source: Source) -> None:
        for node in self.program.scopes[path].of_node:
            if isinstance(node, ast.ImportFrom):
                module = resolved_module(source, node)
                new = self._new_module(module)
                if new != module and node.module:
                    old_text = node.module
                    new_text = new if not node.level else new.split(".")[-len(node.module.split(".")) :]
                    text = new_text if isinstance(new_text, str) else ".".join(new_text)
                    start = source.offset(node.lineno, node.col_offset) + len("from")
                    place = source.data.find(old_text.encode(), start)
                    self.plan.edit(path, place, old_text, text)
                for alias in node.names:
                    if alias.asname and (inner := self.moved.get(f"{module}.{alias.name}")):
                        place = source.offset(alias.lineno, alias.col_offset)
                        self.plan.edit(path, place, alias.name, inner.rpartition(".")[2])
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name in self.moved and (alias.asname or "." in alias.name):
                        place = source.offset(alias.lineno, alias.col_offset)
                        self.plan.edit(path, place, alias.name, self.moved[alias.name])
            elif isinstance(node, ast.Attribute):
                self._module_attribute(path, source, node)

    def _module_attribute(self, path: str, source: Source, node: ast.Attribute) -> None:
        found = self.program.resolve(node)
        if isinstance(found, tuple) and found[1] in self.moved and found[1].endswith("." + node.attr):
            place = source.offset(node.end_lineno or 0, node.end_col_offset or 0) - len(node.attr.encode())
            self.plan.edit(path, place, node.attr, self.moved[found[1]].rpartition(".")[2])

    # -- strings that are names of this module

    def _tables(self, path: str, source: Source) -> None:
        """Strings of `__all__`; in a package that imports late, all strings that are its names or modules."""
        scopes = self.program.scopes[path]
        is_late = source.is_package and "__getattr__" in scopes.module.bindings
        for statement in source.tree.body:
            if isinstance(statement, ast.Assign):
                self._named_type(path, source, statement)
            if isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                is_all = any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
                if statement.value is not None and (is_all or is_late):
                    self._names(path, source, statement.value, is_late and not is_all)

    def _named_type(self, path: str, source: Source, statement: ast.Assign) -> None:
        """`T = TypeVar("T")` and the like, which say their own name."""
        call, target = statement.value, statement.targets[0]
        if not (isinstance(call, ast.Call) and isinstance(target, ast.Name) and call.args):
            return
        first = call.args[0]
        binding = self.program.scopes[path].module.bindings.get(target.id)
        new = self.plan.names.get(binding) if binding is not None else None
        is_type = ast.unparse(call.func).rpartition(".")[2] in NAMED_TYPES
        if new is not None and is_type and isinstance(first, ast.Constant) and first.value == target.id:
            start = source.offset(first.lineno, first.col_offset)
            self.plan.edit(path, source.find_word(target.id, start), target.id, new)

    def _names(self, path: str, source: Source, value: ast.expr, with_modules: bool) -> None:
        for node in ast.walk(value):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            binding = self.program.scopes[path].module.bindings.get(node.value)
            new = self.plan.names.get(binding) if binding is not None else None
            full = f"{source.module}.{node.value}"
            if new is None and with_modules and full in self.moved:
                new = self.moved[full].rpartition(".")[2]
            if new is not None:
                start = source.offset(node.lineno, node.col_offset)
                self.plan.edit(path, source.find_word(node.value, start), node.value, new)

    # -- strings that name another module

    def _string(self, path: str, source: Source, start: int, end: int) -> None:
        text = source.data[start:end]
        for matched in DOTTED.finditer(text):
            self._dotted(path, start + matched.start(), matched[0].decode())
        for matched in PYTHON_FILE.finditer(text):
            name = matched[0].decode()
            if name in self.paths:
                self.plan.edit(path, start + matched.start(), name, self.paths[name])
        for matched in IMPORT_FROM.finditer(text):
            self._import_in_string(path, source, start, matched)

    def _dotted(self, path: str, place: int, text: str) -> None:
        dotted, _, name = text.partition(":")
        parts = dotted.split(".")
        if len(parts) < 2 and not name:
            return
        for length in range(len(parts), 0, -1):
            module = ".".join(parts[:length])
            if module not in self.program.modules or (length == 1 and not name):
                continue
            if module in self.moved and length != 1:
                old, new = module.split("."), self.moved[module].split(".")
                at = place + len(".".join(old[:-1])) + 1
                self.plan.edit(path, at, old[-1], new[-1])
            rest = parts[length] if length < len(parts) else name
            if (module, rest) in self.globals:
                self.plan.edit(path, place + len(module) + 1, rest, self.globals[module, rest])
            return

    def _import_in_string(self, path: str, source: Source, start: int, matched: re.Match[bytes]) -> None:
        module = matched[1].decode()
        if module not in self.program.modules or "#" in path or f"{path}#{start}" in self.program.sources:
            return
        for word in re.finditer(rb"\w+", matched[2]):
            name = word[0].decode()
            if (module, name) in self.globals or f"{module}.{name}" in self.moved:
                line = source.line_of(start + matched.start())
                self.plan.unresolved.append(f"{path}:{line}: code in a string imports {module}.{name}")


def mentions(text: str, names: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Lines of a document that have one of these names in backticks."""
    for number, line in enumerate(text.splitlines(), 1):
        for code in re.findall(r"`([^`]+)`", line):
            for word in re.findall(r"[A-Za-z_]\w*", code):
                if word in names:
                    yield number, word
