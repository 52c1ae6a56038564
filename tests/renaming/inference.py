"""Guesses what mypy calls `Any`: results of functions without annotations, fixtures, parameters."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

from renaming.binder import all_arguments
from renaming.program import Program, own_attributes
from renaming.scopes import Binding, Function, Scope
from renaming.types import Fact

DEPTH = 12  # steps of a guess at most


def is_fixture(node: ast.AST) -> bool:
    """Whether a function is a fixture of pytest."""
    decorators = node.decorator_list if isinstance(node, Function) else []
    return any("fixture" in ast.unparse(decorator) for decorator in decorators)


class Inference:
    """Classes of expressions, by mypy where it knows them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[Binding, list[ast.expr]] = defaultdict(list)
        self.members: dict[tuple[str, str], list[ast.expr]] = defaultdict(list)
        self.calls: dict[Binding, list[ast.Call]] = defaultdict(list)
        self.fixtures: dict[str, list[Binding]] = defaultdict(list)
        self.path_of_call: dict[ast.AST, str] = {}
        for path in program.sources:
            self._collect(path)
        self._busy: set[ast.AST] = set()

    def _collect(self, path: str) -> None:
        scopes = self.program.scopes[path]
        for node in scopes.of_node:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assigned(path, target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._assigned(path, node.target, node.value)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self._assigned(path, node.optional_vars, node.context_expr)
            elif isinstance(node, ast.Call):
                binding = self.program.binding_of(node.func)
                if binding is not None:
                    self.calls[binding].append(node)
            elif isinstance(node, Function) and is_fixture(node):
                binding = scopes.of_node[node].bindings.get(node.name)
                if binding is not None and binding not in self.fixtures[node.name]:
                    self.fixtures[node.name].append(binding)
            if isinstance(node, ast.expr):
                self.path_of_call[node] = path

    def _assigned(self, path: str, target: ast.expr, value: ast.expr) -> None:
        scopes = self.program.scopes[path]
        if isinstance(target, ast.Name) and target in scopes.by_name:
            binding = scopes.by_name[target].binding
            if binding is not None:
                self.values[binding].append(value)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            scope = scopes.of_node[target].enclosing_class()
            if scope is not None and any(
                target is attribute for child in scope.children for attribute in own_attributes(child)
            ):
                self.members[self.program.class_name[scope], target.attr].append(value)

    def fixture_for(self, path: str, name: str) -> Binding | None:
        """The fixture that a parameter `name` of a test in `path` means."""
        best: Binding | None = None
        best_length = -1
        for binding in self.fixtures.get(name, []):
            home = self.program.path(binding.scope)
            folder = home.rpartition("/")[0]
            if home == path:
                return binding
            if home.endswith("/conftest.py") and path.startswith(folder + "/"):
                length = len(folder)
            elif "fixtures" in home or home.endswith("conftest.py"):
                length = 0
            else:
                length = -1 if self._imports(path, binding) is None else 10_000
            if length > best_length:
                best, best_length = binding, length
        return best

    def _imports(self, path: str, fixture: Binding) -> Binding | None:
        bound = self.program.scopes[path].module.bindings.get(fixture.name)
        return bound if bound is not None and self.program.origin(bound) is fixture else None

    # -- facts

    def facts(self, path: str, node: ast.expr, depth: int = DEPTH) -> set[Fact]:
        """What an expression may be; empty where nothing is known."""
        span = (node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)
        known = set(self.program.types.facts.get(path, {}).get(span, ()))
        sure = known - {("any", ""), ("other", ""), ("function", "")}
        if sure or not depth or node in self._busy:
            return sure
        self._busy.add(node)
        try:
            return self._guess(path, node, depth - 1)
        finally:
            self._busy.discard(node)

    def _guess(self, path: str, node: ast.expr, depth: int) -> set[Fact]:
        if isinstance(node, ast.Name | ast.Attribute):
            found = self.program.resolve(node)
            if isinstance(found, tuple):
                return {found}
            if found is not None:
                return self._of_binding(found, depth)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(path, node, depth)
        if isinstance(node, ast.Call):
            return self._of_call(path, node, depth)
        if isinstance(node, ast.IfExp):
            return self.facts(path, node.body, depth) | self.facts(path, node.orelse, depth)
        if isinstance(node, ast.BoolOp):
            return self._all(path, node.values, depth)
        if isinstance(node, ast.NamedExpr | ast.Await):
            return self.facts(path, node.value, depth)
        return set()

    def _all(self, path: str, nodes: Iterable[ast.expr], depth: int) -> set[Fact]:
        found: set[Fact] = set()
        for node in nodes:
            found |= self.facts(path, node, depth)
        return found

    def _of_binding(self, binding: Binding, depth: int) -> set[Fact]:
        program = self.program
        path = program.path(binding.scope)
        name = program.class_of_binding(binding)
        if name is not None:
            return {("class", name)}
        found = {
            ("function", f"{program.module_of(s)}.{s.qualname}") for s in program.function_scopes(binding)
        }
        if "parameter" in binding.kinds:
            found |= self._of_parameter(path, binding, depth)
        return found | self._all(path, self.values.get(binding, ()), depth)

    def _of_parameter(self, path: str, binding: Binding, depth: int) -> set[Fact]:
        scope, node = binding.scope, binding.scope.node
        if not isinstance(node, Function):
            return set()
        names = [argument.arg for argument in all_arguments(node.args)]
        for argument in all_arguments(node.args):
            if argument.arg == binding.name and argument.annotation is not None:
                annotated = self.program.binding_of(argument.annotation)
                name = self.program.class_of_binding(annotated) if annotated is not None else None
                return {("instance", name)} if name else set()
        in_class = scope.parent is not None and scope.parent.kind == "class"
        if in_class and scope.parent is not None and names and names[0] == binding.name:
            return {("instance", self.program.class_name[scope.parent])}
        if node.name.startswith("test_") or is_fixture(node):
            fixture = self.fixture_for(path, binding.name)
            return self._results(fixture, depth) if fixture is not None else set()
        owner = scope.parent.lookup(node.name) if scope.parent is not None else None
        found: set[Fact] = set()
        for call in self.calls.get(owner, ()) if owner is not None and not in_class else ():
            given = dict(zip(names, call.args, strict=False))
            given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
            value = given.get(binding.name)
            if value is not None and not isinstance(value, ast.Starred):
                found |= self.facts(self.path_of_call[call], value, depth)
        return found

    def _results(self, function: Binding, depth: int) -> set[Fact]:
        """What a call of a function gives; for a context manager, what it yields."""
        found: set[Fact] = set()
        path = self.program.path(function.scope)
        for scope in self.program.function_scopes(function):
            node = scope.node
            assert isinstance(node, Function)
            if node.returns is not None:
                found |= self._annotated(path, node.returns)
                continue
            for inner in self._own_nodes(scope):
                if isinstance(inner, ast.Return | ast.Yield) and inner.value is not None:
                    found |= self.facts(path, inner.value, depth)
        return found

    def _annotated(self, path: str, node: ast.expr) -> set[Fact]:
        if isinstance(node, ast.Subscript):  # Iterator[X] of a fixture or context manager
            return self._annotated(path, node.slice)
        if isinstance(node, ast.BinOp):
            return self._annotated(path, node.left) | self._annotated(path, node.right)
        found = self.program.binding_of(node)
        name = self.program.class_of_binding(found) if found is not None else None
        return {("instance", name)} if name else set()

    def _own_nodes(self, scope: Scope) -> list[ast.AST]:
        scopes = self.program.scopes[self.program.path(scope)]
        return [node for node in ast.walk(scope.node) if scopes.of_node.get(node) is scope]

    def _of_attribute(self, path: str, node: ast.Attribute, depth: int) -> set[Fact]:
        found: set[Fact] = set()
        for kind, name in self.facts(path, node.value, depth):
            owner = self.program.owner(name, node.attr) if kind in ("instance", "class") else None
            if owner is None or owner not in self.program.classes:
                continue
            binding = self.program.classes[owner].bindings.get(node.attr)
            if binding is not None:
                is_property = any("property" in ast.unparse(d) for n in binding.nodes for d in _decorators(n))
                found |= self._results(binding, depth) if is_property else self._of_binding(binding, depth)
            # a base may declare it as Any, and the class or those below assign it
            related = [
                *self.program.types.classes[name].lookup,
                *self.program.subclasses.get(name, ()),
            ]
            for class_name in related:
                for value in self.members.get((class_name, node.attr), ()):
                    found |= self.facts(self.path_of_call.get(value, path), value, depth)
        return found

    def _of_call(self, path: str, node: ast.Call, depth: int) -> set[Fact]:
        found: set[Fact] = set()
        for kind, name in self.facts(path, node.func, depth):
            if kind == "class":
                found.add(("instance", name))
            for scope in self.program.functions.get(name, ()) if kind == "function" else ():
                owner = scope.parent.bindings.get(name.rpartition(".")[2]) if scope.parent else None
                if owner is not None:
                    found |= self._results(owner, depth)
        return found


def _decorators(node: ast.AST) -> list[ast.expr]:
    return node.decorator_list if isinstance(node, Function) else []
