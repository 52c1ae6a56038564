"""Joins what has to be renamed together: imports, overrides, protocols, fixtures, parameters of overrides."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Set

from renaming.binder import all_arguments
from renaming.inference import Inference, is_fixture
from renaming.program import Groups, Member, Program
from renaming.scopes import Binding, Function, Scope


class Links:
    """Groups of things of one name; `outside` are those that other packages name too."""

    def __init__(self, program: Program, inference: Inference, names: Set[str]) -> None:
        self.program, self.inference, self.names = program, inference, names
        self.groups = Groups()
        self.outside: set[object] = set()
        self.imported_as: dict[Binding, list[tuple[str, int]]] = defaultdict(list)  # places before an `as`
        self.is_import_target: set[object] = set()
        self._imports()
        self._members()
        self._fixtures()

    def _imports(self) -> None:
        program = self.program
        for path, scopes in program.scopes.items():
            for scope in scopes.module.walk():
                for binding in scope.bindings.values():
                    self._import(path, binding)

    def _import(self, path: str, binding: Binding) -> None:
        for module, name, has_alias in binding.imports:
            target = self.program.global_binding(module, name) if name else None
            is_module = name is not None and f"{module}.{name}" in self.program.modules
            thing: object = None
            if target is not None and target is not binding:
                thing = target
            elif is_module:
                thing = ("module", f"{module}.{name}")
            elif name is None and module in self.program.modules and "." not in module:
                thing = ("module", module)
            if thing is None:
                continue
            self.is_import_target.add(thing)
            if not has_alias:
                self.groups.join(thing, binding)
            elif isinstance(thing, Binding):
                self._place_of_alias(path, binding, thing)

    def _place_of_alias(self, path: str, binding: Binding, target: Binding) -> None:
        source = self.program.sources[path]
        for alias in self._aliases(path, binding):
            place = source.offset(alias.lineno, alias.col_offset)
            if source.data[place : place + len(target.name)] == target.name.encode():
                self.imported_as[target].append((path, place))

    def _aliases(self, path: str, binding: Binding) -> list[ast.alias]:
        references = self.program.scopes[path].references
        return [r.node for r in references if r.binding is binding and isinstance(r.node, ast.alias)]

    def _members(self) -> None:
        program = self.program
        for scope, name in program.class_name.items():
            for binding in scope.bindings.values():
                self.groups.join(("member", name, binding.name), binding)
        watched = set(self.names) | {
            scope.qualname.rpartition(".")[2]
            for scopes in program.functions.values()
            for scope in scopes
            if any("parameter" in scope.bindings[n].kinds for n in scope.bindings.keys() & self.names)
        }
        for name in program.classes:
            lookup = [
                program.types.classes[b] for b in program.facts(name).lookup if b in program.types.classes
            ]
            for attribute in {a for facts in lookup for a in facts.names if a in watched}:
                owners = [facts.name for facts in lookup if attribute in facts.names]
                for owner in owners:
                    self.groups.join(("member", owners[0], attribute), ("member", owner, attribute))
                    if owner not in program.classes:
                        self.outside.add(("member", owner, attribute))

    def protocol_members(self) -> Iterator[tuple[Member, Member]]:
        """Members of protocols with those of the classes that satisfy them."""
        program = self.program
        for class_name, protocol in sorted(program.types.implements):
            for attribute in sorted(program.types.classes[protocol].names & set(self.names)):
                owner = program.owner(class_name, attribute)
                if owner is not None:
                    yield ("member", protocol, attribute), ("member", owner, attribute)

    def _fixtures(self) -> None:
        """A parameter of a test or fixture is the fixture of its name."""
        for path, scopes in self.program.scopes.items():
            for scope in scopes.module.walk():
                node = scope.node
                is_called_by_name = isinstance(node, Function) and node.name.startswith("test_")
                if not isinstance(node, Function) or not (is_called_by_name or is_fixture(node)):
                    continue
                drawn = decorated_names(node)
                for argument in all_arguments(node.args):
                    if argument.arg not in self.names or argument.arg in drawn:
                        continue
                    fixture = self.inference.fixture_for(path, argument.arg)
                    if fixture is not None:
                        self.groups.join(fixture, scope.bindings[argument.arg])
                    elif argument.arg not in ("self", "cls") and not node.args.defaults:
                        self.outside.add(scope.bindings[argument.arg])

    def overridden_parameters(self) -> Iterator[tuple[Binding, Binding]]:
        """Parameters of one name, of a method and those that override it."""
        families: dict[object, list[Scope]] = defaultdict(list)
        for name, scope in self.program.classes.items():
            for child in scope.children:
                node = child.node
                is_special = isinstance(node, Function) and node.name.startswith("__")
                if isinstance(node, Function) and (not is_special or node.name == "__call__"):
                    families[self.groups.root(("member", name, node.name))].append(child)
        outside = {self.groups.root(member) for member in self.outside}
        for root, scopes in families.items():
            by_name: dict[str, Binding] = {}
            for scope in scopes:
                for binding in scope.bindings.values():
                    if "parameter" in binding.kinds and binding.name in self.names:
                        yield by_name.setdefault(binding.name, binding), binding
                        if root in outside and not scope.qualname.endswith(".forward"):  # torch has any
                            self.outside.add(binding)


def decorated_names(node: Function) -> set[str]:
    """Parameters that decorators of a test give: `parametrize` and Hypothesis' `given`."""
    names: set[str] = set()
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        names |= {keyword.arg for keyword in decorator.keywords if keyword.arg}
        if ast.unparse(decorator.func).rpartition(".")[2] == "given" and decorator.args:
            names |= {argument.arg for argument in node.args.args[-len(decorator.args) :]}
        if ast.unparse(decorator.func).endswith("parametrize") and decorator.args:
            for inner in ast.walk(decorator.args[0]):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    names |= {name.strip() for name in inner.value.split(",")}
    return names
