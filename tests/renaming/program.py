"""The whole repository: which names are the same thing in several files and classes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from renaming.binder import bind
from renaming.scopes import Binding, Function, Reference, Scope, Scopes
from renaming.sources import Source
from renaming.types import ClassFacts, Types

Member = tuple[str, str, str]  # "member", class, name
Module = tuple[str, str]  # "module", dotted name
Thing = Binding | Member | Module


class Groups:
    """Sets of things that have one name (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def root(self, thing: Hashable) -> Hashable:
        """The representative of the group."""
        path = []
        while (parent := self._parent.get(thing, thing)) != thing:
            path.append(thing)
            thing = parent
        for passed in path:
            self._parent[passed] = thing
        return thing

    def join(self, first: Hashable, second: Hashable) -> None:
        """Make one group of two."""
        one, other = self.root(first), self.root(second)
        if one != other:
            self._parent[other] = one


@dataclass
class Program:
    """Sources, scopes and types, with classes by full name."""

    sources: Mapping[str, Source]
    types: Types
    scopes: dict[str, Scopes] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)  # path by dotted name
    names: dict[ast.Name, Reference] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)  # modules and the packages that they are in
    path_of: dict[Scope, str] = field(default_factory=dict)  # by scope of the module
    classes: dict[str, Scope] = field(default_factory=dict)
    class_name: dict[Scope, str] = field(default_factory=dict)
    subclasses: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    functions: dict[str, list[Scope]] = field(default_factory=lambda: defaultdict(list))
    hosts: dict[str, tuple[str, list[int]]] = field(default_factory=dict)  # files of programs in strings

    def __post_init__(self) -> None:
        for path, source in self.sources.items():
            scopes = bind(source)
            self.scopes[path] = scopes
            self.modules[source.module] = path
            self.path_of[scopes.module] = path
            self.names |= scopes.by_name
            parts = source.module.split(".")
            self.packages |= {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        for source in self.sources.values():
            self._index(source)
        for name in self.classes:
            self.facts(name)
        for name, facts in self.types.classes.items():
            for base in facts.lookup[1:]:
                self.subclasses[base].append(name)

    def _index(self, source: Source) -> None:
        for scope in self.scopes[source.path].module.walk():
            full = f"{source.module}.{scope.qualname}"
            if scope.kind == "class":
                node = scope.node
                assert isinstance(node, ast.ClassDef)
                local = f"{source.module}.{node.name}@{node.lineno}"
                in_function = scope.parent is not None and scope.parent.function().kind == "function"
                name = local if in_function else full
                self.classes[name], self.class_name[scope] = scope, name
            elif scope.kind == "function":
                self.functions[full].append(scope)

    def facts(self, name: str) -> ClassFacts:
        """What is known of a class; from its text where mypy has not seen it."""
        if name in self.types.classes:
            return self.types.classes[name]
        scope = self.classes[name]
        node = scope.node
        assert isinstance(node, ast.ClassDef)
        facts = ClassFacts(name, self.module_of(scope), node.lineno, [name], set(scope.bindings))
        self.types.classes[name] = facts
        for child in scope.children:
            facts.names |= {target.attr for target in own_attributes(child)}
        for base in node.bases:
            binding = self.binding_of(base, scope)
            found = self.class_of_binding(binding) if binding is not None else None
            facts.lookup += self.facts(found).lookup if found else [f"?.{ast.unparse(base)}"]
        return facts

    def module_of(self, scope: Scope) -> str:
        """Dotted name of the module of a scope."""
        return self.sources[self.path(scope)].module

    def path(self, scope: Scope) -> str:
        """File of a scope."""
        return self.path_of[scope.module()]

    # -- names to definitions

    def global_binding(self, module: str, name: str) -> Binding | None:
        """A name of a module of the repository."""
        path = self.modules.get(module)
        return self.scopes[path].module.bindings.get(name) if path else None

    def origin(self, binding: Binding, seen: frozenset[Binding] = frozenset()) -> Binding | Module:
        """What an imported name is where it is defined."""
        if binding in seen:
            return binding
        for module, name, _ in binding.imports:
            if name is None:
                if module in self.packages:
                    return ("module", module)
                continue
            target = self.global_binding(module, name)
            if target is not None and target is not binding:
                return self.origin(target, seen | {binding})
            if f"{module}.{name}" in self.modules:
                return ("module", f"{module}.{name}")
        return binding

    def binding_of(self, node: ast.AST, scope: Scope | None = None) -> Binding | None:
        """The definition that a name, or a name of a module, refers to."""
        found = self.resolve(node, scope)
        return found if isinstance(found, Binding) else None

    def resolve(self, node: ast.AST, scope: Scope | None = None) -> Binding | Module | None:
        """The definition or the module that `name` or `package.module.name` refers to."""
        if isinstance(node, ast.Name):
            binding = scope.lookup(node.id) if scope is not None else self._reference(node)
            return self.origin(binding) if binding is not None else None
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value, scope)
            if isinstance(base, tuple):
                target = self.global_binding(base[1], node.attr)
                if target is not None:
                    return self.origin(target)
                inner = f"{base[1]}.{node.attr}"
                if inner in self.packages:
                    return ("module", inner)
        return None

    def _reference(self, node: ast.Name) -> Binding | None:
        reference = self.names.get(node)
        return reference.binding if reference is not None else None

    def class_of_binding(self, binding: Binding) -> str | None:
        """Full name of the class that a binding is."""
        for node in binding.nodes:
            if isinstance(node, ast.ClassDef):
                scope = self.scopes[self.path(binding.scope)].own.get(node)
                return self.class_name.get(scope) if scope is not None else None
        return None

    def function_scopes(self, binding: Binding) -> list[Scope]:
        """The functions that a binding is."""
        own = self.scopes[self.path(binding.scope)].own
        return [own[node] for node in binding.nodes if isinstance(node, Function)]

    # -- members

    def owner(self, class_name: str, attribute: str) -> str | None:
        """The class that gives an attribute to a class; None where none is known to."""
        facts = self.types.classes.get(class_name)
        for base in facts.lookup if facts else []:
            known = self.types.classes.get(base)
            if known is not None and attribute in known.names:
                return base
        return None

    def method(self, class_name: str, name: str) -> Binding | None:
        """The definition of a method that a class has, if it is in the repository."""
        owner = self.owner(class_name, name)
        return self.classes[owner].bindings.get(name) if owner in self.classes else None

    def is_generated(self, class_name: str) -> bool:
        """Whether fields are the parameters of the constructor: dataclasses, named tuples and the like."""
        scope = self.classes[class_name]
        node = scope.node
        assert isinstance(node, ast.ClassDef)
        if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            return True
        facts = self.types.classes.get(class_name)
        known = {"NamedTuple", "TypedDict", "tuple"}
        return any(base.rpartition(".")[2] in known for base in (facts.lookup[1:] if facts else []))


def own_attributes(method: Scope) -> Iterator[ast.Attribute]:
    """Attributes that a method assigns to its first parameter, in all scopes inside too."""
    node = method.node
    if not isinstance(node, Function) or not (node.args.posonlyargs or node.args.args):
        return
    first = (node.args.posonlyargs or node.args.args)[0].arg
    for inner in ast.walk(node):
        if not (isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store)):
            continue
        if isinstance(inner.value, ast.Name) and inner.value.id == first:
            yield inner
