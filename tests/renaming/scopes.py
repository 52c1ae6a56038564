"""Scopes of a file, and which name is bound where, as Python's rules of lexical scope have it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Binding:
    """A name of a scope, and every place where it is written."""

    scope: Scope
    name: str
    places: list[int] = field(default_factory=list)  # byte offsets
    kinds: set[str] = field(default_factory=set)  # parameter, import, function, class, variable
    imports: list[tuple[str, str | None, bool]] = field(default_factory=list)  # module, name, has an `as`
    nodes: list[ast.AST] = field(default_factory=list)  # functions and classes that it is


@dataclass(eq=False)
class Scope:
    """A module, class, function, lambda or comprehension."""

    kind: str
    qualname: str
    parent: Scope | None
    node: ast.AST
    bindings: dict[str, Binding] = field(default_factory=dict)
    outer: dict[str, str] = field(default_factory=dict)  # names declared global or nonlocal
    children: list[Scope] = field(default_factory=list)

    def bind(self, name: str) -> Binding:
        """The binding of a name that is bound here; that of another scope if it is declared so."""
        if self.outer.get(name) == "global":
            return self.module().bind(name)
        if self.outer.get(name) == "nonlocal":
            binding = self.parent.lookup(name, from_inside=True) if self.parent else None
            if binding is not None:
                return binding
        return self.bindings.setdefault(name, Binding(self, name))

    def module(self) -> Scope:
        """The scope of the file."""
        return self if self.parent is None else self.parent.module()

    def function(self) -> Scope:
        """The nearest function, class or module: where a row of the table says that a local is."""
        scope = self
        while scope.kind in ("comprehension", "lambda") and scope.parent is not None:
            scope = scope.parent
        return scope

    def enclosing_class(self) -> Scope | None:
        """The class of the method that this is in."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope

    def chain(self, name: str, from_inside: bool = False) -> Iterator[Scope]:
        """Scopes that a name is looked for in, innermost first."""
        scope: Scope | None = self
        if self.outer.get(name) == "global":
            yield self.module()
            return
        while scope is not None:
            is_visible = scope.kind != "class" or (scope is self and not from_inside)
            if is_visible and name not in scope.outer:
                yield scope
            if scope.outer.get(name) == "global" and scope.kind != "class":
                yield self.module()
                return
            scope = scope.parent

    def lookup(self, name: str, from_inside: bool = False) -> Binding | None:
        """What a name means here; None for a builtin."""
        for scope in self.chain(name, from_inside):
            if name in scope.bindings:
                return scope.bindings[name]
        return None

    def walk(self) -> Iterator[Scope]:
        """This scope and all inside."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(eq=False)
class Reference:
    """A name that is read, written or deleted."""

    scope: Scope
    name: str
    place: int
    node: ast.AST
    binding: Binding | None = None


@dataclass
class Scopes:
    """The scopes of a file with what refers to them."""

    module: Scope
    references: list[Reference]
    of_node: dict[ast.AST, Scope]  # scope that an expression or statement is in
    own: dict[ast.AST, Scope]  # scope that a function, class or lambda makes
    by_name: dict[ast.Name, Reference]
    quoted: dict[ast.Constant, ast.expr]  # annotations in quotes

    def named(self, qualname: str) -> list[Scope]:
        """Functions and classes of a qualified name, the module for an empty one."""
        kinds = ("function", "class", "module")
        return [scope for scope in self.module.walk() if scope.qualname == qualname and scope.kind in kinds]
