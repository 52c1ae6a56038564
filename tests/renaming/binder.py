"""Fills the scopes of a file from its tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from renaming.embedded import quoted_expression, repair_fstrings
from renaming.scopes import Binding, Function, Reference, Scope, Scopes
from renaming.sources import Source

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def bind(source: Source) -> Scopes:
    """The scopes of a file."""
    repair_fstrings(source, source.tree)
    binder = _Binder(source)
    binder.declare(source.tree, binder.scope)
    for node in source.tree.body:
        binder.visit(node)
    scopes = Scopes(binder.scope, binder.references, binder.of_node, binder.own, {}, binder.quoted)
    for reference in scopes.references:
        if reference.binding is None:
            reference.binding = reference.scope.lookup(reference.name)
        if reference.binding is not None and reference.place >= 0:
            reference.binding.places.append(reference.place)
        if isinstance(reference.node, ast.Name):
            scopes.by_name[reference.node] = reference
    return scopes


class _Binder(ast.NodeVisitor):
    """Makes scopes and bindings first, so that a name that is bound later is local from the start."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.scope = Scope("module", "", None, source.tree)
        self.references: list[Reference] = []
        self.of_node: dict[ast.AST, Scope] = {}
        self.own: dict[ast.AST, Scope] = {source.tree: self.scope}
        self.quoted: dict[ast.Constant, ast.expr] = {}
        self.in_annotation = False

    def declare(self, node: ast.AST, scope: Scope) -> None:
        """Names that `global` and `nonlocal` statements of this scope declare, before anything is bound."""
        stack = list(ast.iter_child_nodes(node))
        while stack:
            child = stack.pop()
            if isinstance(child, ast.Global | ast.Nonlocal):
                word = "global" if isinstance(child, ast.Global) else "nonlocal"
                scope.outer.update(dict.fromkeys(child.names, word))
            elif not isinstance(child, Function | ast.ClassDef | ast.Lambda):
                stack.extend(ast.iter_child_nodes(child))

    def visit(self, node: ast.AST) -> None:
        self.of_node[node] = self.scope
        super().visit(node)

    def _offset(self, node: ast.AST) -> int:
        return self.source.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        return self.source.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _bind(self, name: str, place: int, kind: str, node: ast.AST, scope: Scope | None = None) -> Binding:
        scope = scope or self.scope
        binding = scope.bind(name)
        binding.kinds.add(kind)
        self.references.append(Reference(scope, name, place, node, binding))
        return binding

    # -- scopes

    def _function(self, node: Function) -> None:
        place = self.source.find_word(node.name, self._offset(node) + 3)
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._bind(node.name, place, "function", node).nodes.append(node)
        self._arguments(node.args)
        if node.returns is not None:
            self._annotation(node.returns)
        with_scope = self._open("function", node.name, node)
        self._parameters(node.args)
        for statement in node.body:
            self.visit(statement)
        self.scope = with_scope

    visit_FunctionDef = visit_AsyncFunctionDef = _function

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._arguments(node.args)
        outside = self._open("lambda", "<lambda>", node)
        self._parameters(node.args)
        self.visit(node.body)
        self.scope = outside

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        place = self.source.find_word(node.name, self._offset(node) + 5)
        for part in (*node.decorator_list, *node.bases):
            self.visit(part)
        for keyword in node.keywords:
            self.visit(keyword.value)
        self._bind(node.name, place, "class", node).nodes.append(node)
        outside = self._open("class", node.name, node)
        for statement in node.body:
            self.visit(statement)
        self.scope = outside

    def _comprehension(self, node: Comprehension) -> None:
        self.visit(node.generators[0].iter)
        outside = self._open("comprehension", "<comprehension>", node)
        for index, generator in enumerate(node.generators):
            self.of_node[generator] = self.scope
            if index:
                self.visit(generator.iter)
            self.visit(generator.target)
            for condition in generator.ifs:
                self.visit(condition)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self.scope = outside

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _open(self, kind: str, name: str, node: ast.AST) -> Scope:
        outside = self.scope
        inner = outside.function().qualname
        scope = Scope(kind, f"{inner}.{name}" if inner else name, outside, node)
        outside.children.append(scope)
        self.own[node] = self.scope = scope
        if kind != "comprehension":
            self.declare(node, scope)
        return outside

    def _arguments(self, arguments: ast.arguments) -> None:
        """Defaults and annotations, which are read outside the function."""
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        for argument in all_arguments(arguments):
            if argument.annotation is not None:
                self._annotation(argument.annotation)

    def _parameters(self, arguments: ast.arguments) -> None:
        for argument in all_arguments(arguments):
            self.of_node[argument] = self.scope
            self._bind(argument.arg, self._offset(argument), "parameter", argument)

    def _annotation(self, node: ast.expr) -> None:
        was, self.in_annotation = self.in_annotation, True
        self.visit(node)
        self.in_annotation = was

    # -- names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.references.append(Reference(self.scope, node.id, self._offset(node), node))
        else:
            self._bind(node.id, self._offset(node), "variable", node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        scope = self.scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope = scope.parent
        self.of_node[node.target] = self.scope
        self._bind(node.target.id, self._offset(node.target), "variable", node.target, scope)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        self.visit(node.target)
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        is_cast = isinstance(node.func, ast.Name) and node.func.id == "cast" and node.args
        self.visit(node.func)
        for index, argument in enumerate(node.args):
            self._annotation(argument) if is_cast and not index else self.visit(argument)
        for keyword in node.keywords:
            self.of_node[keyword] = self.scope
            self._annotation(keyword.value) if keyword.arg == "bound" else self.visit(keyword.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        if self.in_annotation and isinstance(node.value, str):
            inner = quoted_expression(self.source, node)
            if inner is not None:
                self.quoted[node] = inner
                self.visit(inner)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        name = ast.unparse(node.value).rpartition(".")[2]
        is_type = (name[:1].isupper() and not name.isupper()) or name in (
            "list",
            "dict",
            "tuple",
            "type",
        )
        was, self.in_annotation = (
            self.in_annotation,
            (self.in_annotation or is_type) and name != "Literal",
        )
        self.visit(node.slice)
        self.in_annotation = was

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module = resolved_module(self.source, node) if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            self.of_node[alias] = self.scope
            if alias.name == "*":
                continue
            place = self._offset(alias)
            bound = alias.asname or alias.name.partition(".")[0]
            if alias.asname:
                place = self.source.find_word(alias.asname, place + len(alias.name))
            binding = self._bind(bound, place, "import", alias)
            if isinstance(node, ast.ImportFrom):
                binding.imports.append((module, alias.name, alias.asname is not None))
            else:
                whole = alias.name if alias.asname else bound
                binding.imports.append((whole, None, alias.asname is not None))

    visit_Import = visit_ImportFrom = _import

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            start = self._end(node.type) if node.type is not None else self._offset(node)
            self._bind(node.name, self.source.find_word(node.name, start), "variable", node)
        for statement in node.body:
            self.visit(statement)

    def _declared(self, node: ast.Global | ast.Nonlocal) -> None:
        at = self._offset(node) + 6
        for name in node.names:
            at = self.source.find_word(name, at)
            self.references.append(Reference(self.scope, name, at, node, self.scope.bind(name)))
            at += len(name)

    visit_Global = visit_Nonlocal = _declared

    # -- patterns

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        start = self._offset(node)
        if node.pattern is not None:
            self.visit(node.pattern)
            start = self._end(node.pattern)
        if node.name is not None:
            self._bind(node.name, self.source.find_word(node.name, start), "variable", node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name is not None:
            self._bind(node.name, self.source.find_word(node.name, self._offset(node)), "variable", node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest is not None:
            start = max([self._end(pattern) for pattern in node.patterns], default=self._offset(node))
            self._bind(node.rest, self.source.find_word(node.rest, start), "variable", node)


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter of a function."""
    stars: Iterable[ast.arg | None] = (arguments.vararg, arguments.kwarg)
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return plain + [argument for argument in stars if argument is not None]


def resolved_module(source: Source, node: ast.ImportFrom) -> str:
    """The module of a `from` import, by its full name."""
    if not node.level:
        return node.module or ""
    parts = source.module.split(".")
    keep = len(parts) - node.level + (1 if source.is_package else 0)
    return ".".join(parts[:keep] + ([node.module] if node.module else []))
