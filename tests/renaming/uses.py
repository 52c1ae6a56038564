"""Where members and parameters are used: attributes, keywords, patterns, strings."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from renaming.binder import all_arguments
from renaming.inference import Inference
from renaming.meetings import Meetings
from renaming.program import Program, Thing
from renaming.scopes import Binding, Function, Scope
from renaming.types import Fact

BY_NAME = (
    "getattr",
    "setattr",
    "hasattr",
    "delattr",
    "object",
    "multiple",
)  # of builtins, monkeypatch, mock
COPIES = ("replace", "dataclasses.replace", "copy.replace")


@dataclass(frozen=True)
class Use:
    """A place that names something; nothing where it is not known what."""

    path: str
    place: int
    name: str
    things: tuple[Thing, ...]
    candidates: tuple[Thing, ...] = ()
    why: str = ""


class Uses:
    """All uses of the names of the table in all files."""

    def __init__(self, program: Program, inference: Inference, names: Collection[str]) -> None:
        self.program, self.inference, self.names = program, inference, set(names)
        self.found: list[Use] = []
        self.definers: dict[str, list[Thing]] = defaultdict(list)
        self.foreign: set[str] = set()  # attributes of classes of other packages
        for name, facts in program.types.classes.items():
            if name in program.classes:
                for attribute in facts.names & self.names:
                    self.definers[attribute].append(("member", name, attribute))
            else:
                self.foreign |= facts.names
        self.parameters: dict[tuple[str, str], list[Thing]] = defaultdict(list)  # by function and name
        for scopes in program.functions.values():
            for scope in scopes:
                self._index_parameters(scope)
        self.globals: dict[str, list[Thing]] = defaultdict(list)
        self._passing: set[Scope] = set()
        self._meetings = Meetings(program)
        for path in program.sources:
            module = program.scopes[path].module
            for name in module.bindings.keys() & self.names:
                self.globals[name].append(module.bindings[name])
        for path in program.sources:
            for node in program.scopes[path].of_node:
                self._visit(path, node)

    def _index_parameters(self, scope: Scope) -> None:
        called = scope.qualname.rpartition(".")[2]
        parent = scope.parent
        if called in ("__init__", "__call__") and parent is not None:
            called = parent.qualname.rpartition(".")[2] if called == "__init__" else ""
        for binding in scope.bindings.values():
            if "parameter" in binding.kinds and binding.name in self.names:
                self.parameters[called, binding.name].append(binding)

    def _visit(self, path: str, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute) and node.attr in self.names:
            source = self.program.sources[path]
            place = source.offset(node.end_lineno or 0, node.end_col_offset or 0) - len(node.attr.encode())
            self._attribute(path, node.value, node.attr, place, node)
        elif isinstance(node, ast.Call):
            self._call(path, node)
        elif isinstance(node, ast.MatchClass):
            self._pattern(path, node)
        elif isinstance(node, Function):
            self._decorators(path, node)
        elif isinstance(node, ast.Assign):
            self._slots(path, node)

    # -- attributes

    def _attribute(
        self, path: str, base: ast.expr, name: str, place: int, node: ast.Attribute | None = None
    ) -> None:
        resolved = self.program.resolve(node) if node is not None else None
        if resolved is None and isinstance(outer := self.program.resolve(base), tuple):
            resolved = self.program.global_binding(outer[1], name)
            if resolved is None:
                return  # a module without this name
        if resolved is not None:
            target = self.program.resolve(base)
            direct = self.program.global_binding(target[1], name) if isinstance(target, tuple) else None
            self.found.append(Use(path, place, name, (direct or resolved,)))
            return
        if self._is_foreign_module(base):
            return
        facts = self._base_facts(path, base)
        things = {thing for fact in facts for thing in self._member(fact, name)}
        if things:
            self.found.append(Use(path, place, name, tuple(sorted(things, key=str))))
            return
        if node is None or ("module", "") in facts:  # a name in a string, or of a module that is not known
            modules = tuple(self.globals.get(name, ()))
            if modules and not any(kind == "instance" for kind, _ in facts):
                self.found.append(Use(path, place, name, (), modules, "perhaps a name of a module"))
        if ("module", "") in facts:
            return
        if any(kind in ("instance", "class") and not self._is_vague(full) for kind, full in facts):
            return  # a known class that has no such attribute of ours
        candidates = tuple(
            thing for thing in self.definers.get(name, ()) if self._meetings.may_meet(path, thing)
        )
        if candidates:
            why = "an attribute of other packages too" if name in self.foreign else "type unknown"
            self.found.append(Use(path, place, name, (), candidates, why))

    def _is_vague(self, full: str) -> bool:
        return full in ("builtins.object", "types.ModuleType", "types.SimpleNamespace")

    def _is_foreign_module(self, base: ast.expr) -> bool:
        while isinstance(base, ast.Attribute):
            base = base.value
        binding = self.program.binding_of(base)
        return binding is not None and any(name is None for _, name, _ in binding.imports)

    def _base_facts(self, path: str, base: ast.expr) -> set[Fact]:
        scope = self.program.scopes[path].of_node.get(base)
        owner = scope.enclosing_class() if scope is not None else None
        if owner is not None and isinstance(base, ast.Call) and ast.unparse(base.func) == "super":
            lookup = self.program.facts(self.program.class_name[owner]).lookup
            return {("super", name) for name in lookup[1:]}
        return self.inference.facts(path, base)

    def _member(self, fact: Fact, name: str) -> Iterator[Thing]:
        kind, full = fact
        if kind == "super":
            if full in self.program.types.classes and name in self.program.types.classes[full].names:
                yield ("member", full, name)
        elif kind in ("instance", "class"):
            owner = self.program.owner(full, name)
            if owner is not None:
                yield ("member", owner, name)
                return
            below = {self.program.owner(sub, name) for sub in self.program.subclasses.get(full, ())}
            for sub in below - {None} if full in self.program.classes else ():
                yield ("member", str(sub), name)

    # -- calls

    def _call(self, path: str, node: ast.Call) -> None:
        self._strings_of_call(path, node)
        keywords = [keyword for keyword in node.keywords if keyword.arg in self.names]
        if not keywords:
            return
        source = self.program.sources[path]
        function = node.func
        text = ast.unparse(function)
        copied: ast.expr | None = None
        if text in COPIES and node.args:
            copied = node.args[0]
        elif isinstance(function, ast.Attribute) and function.attr in ("_replace", "__replace__"):
            copied = function.value
        elif text.rpartition(".")[2] in ("partial", "submit") and node.args:
            function = node.args[0]
        for keyword in keywords:
            assert keyword.arg is not None
            place = source.offset(keyword.lineno, keyword.col_offset)
            if copied is not None:
                facts = self.inference.facts(path, copied)
                things = {thing for fact in facts for thing in self._member(fact, keyword.arg)}
                candidates = tuple(self.definers.get(keyword.arg, ()))
                self._keyword(path, place, keyword.arg, things, candidates, bool(facts))
            else:
                found, known = self._callee(path, function, keyword.arg)
                called = text.rpartition(".")[2] if function is node.func else ""
                candidates = tuple(self.parameters.get((called, keyword.arg), ()))
                self._keyword(path, place, keyword.arg, found, candidates, known)

    def _keyword(
        self,
        path: str,
        place: int,
        name: str,
        things: set[Thing],
        candidates: tuple[Thing, ...],
        known: bool,
    ) -> None:
        if things:
            self.found.append(Use(path, place, name, tuple(sorted(things, key=str))))
        elif candidates and not known:
            self.found.append(Use(path, place, name, (), candidates, "keyword of an unknown function"))

    def _callee(self, path: str, function: ast.expr, keyword: str) -> tuple[set[Thing], bool]:
        """The parameters that a keyword of a call names, and whether it is known what is called."""
        binding = self.program.binding_of(function)
        if binding is not None and (binding.nodes or any(name is None for _, name, _ in binding.imports)):
            return set(self._of_definition(binding, keyword)), True
        found: set[Thing] = set()
        known = False
        if isinstance(function, ast.Attribute):
            for _, full in self._base_facts(path, function.value):
                method = self.program.method(full, function.attr) if full else None
                if method is not None and method.nodes:
                    known = True
                    found |= set(self._of_definition(method, keyword))
        for kind, full in self.inference.facts(path, function) if not known else ():
            if kind == "class":
                known = True
                found |= set(self._of_class(full, keyword))
            elif kind == "instance":
                called = self.program.method(full, "__call__")
                known = known or called is not None
                found |= set(self._of_definition(called, keyword)) if called else set()
            elif kind == "function" and full in self.program.functions:
                known = True
                for scope in self.program.functions[full]:
                    found |= set(self._of_function(scope, keyword))
            elif kind == "function" and full:
                known = True
        return found, known

    def _of_definition(self, binding: Binding, keyword: str) -> Iterator[Thing]:
        name = self.program.class_of_binding(binding)
        if name is not None:
            yield from self._of_class(name, keyword)
        for scope in self.program.function_scopes(binding):
            yield from self._of_function(scope, keyword)

    def _of_function(self, scope: Scope, keyword: str) -> Iterator[Thing]:
        binding = scope.bindings.get(keyword)
        if binding is not None and "parameter" in binding.kinds:
            yield binding
            return
        node = scope.node
        rest = node.args.kwarg if isinstance(node, Function) else None
        if rest is None or scope in self._passing:
            return
        self._passing.add(scope)  # what goes on through `**rest`
        path = self.program.path(scope)
        for call in ast.walk(node):
            if not isinstance(call, ast.Call):
                continue
            passed = [k.value for k in call.keywords if k.arg is None]
            if any(isinstance(value, ast.Name) and value.id == rest.arg for value in passed):
                yield from self._callee(path, call.func, keyword)[0]
        self._passing.discard(scope)

    def _of_class(self, name: str, keyword: str) -> Iterator[Thing]:
        for base in self.program.types.classes[name].lookup if name in self.program.types.classes else ():
            if base not in self.program.classes:
                continue
            scope = self.program.classes[base]
            for method in ("__init__", "__new__"):
                for child in scope.children:
                    if child.qualname == f"{scope.qualname}.{method}":
                        found = list(self._of_function(child, keyword))
                        yield from found
                        if found:
                            return
            if self.program.is_generated(base) and keyword in self.program.facts(base).names:
                yield ("member", base, keyword)
                return

    # -- names in strings and patterns

    def _strings_of_call(self, path: str, node: ast.Call) -> None:
        called = ast.unparse(node.func).rpartition(".")[2]
        if called in BY_NAME and len(node.args) >= 2:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value in self.names:
                self._attribute(path, node.args[0], name.value, self._inside(path, name, name.value))

    def _inside(self, path: str, node: ast.Constant, word: str) -> int:
        source = self.program.sources[path]
        return source.find_word(word, source.offset(node.lineno, node.col_offset))

    def _pattern(self, path: str, node: ast.MatchClass) -> None:
        source = self.program.sources[path]
        after = source.offset(node.cls.end_lineno or 0, node.cls.end_col_offset or 0)
        for pattern in node.patterns:
            after = source.offset(pattern.end_lineno, pattern.end_col_offset)
        for name, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
            if name in self.names:
                self._attribute(path, node.cls, name, source.find_word(name, after))
            after = source.offset(pattern.end_lineno, pattern.end_col_offset)

    def _decorators(self, path: str, node: Function) -> None:
        """Names of parameters in `parametrize`, `given` and `usefixtures`."""
        own = self.program.scopes[path].own[node].bindings
        names = {argument.arg for argument in all_arguments(node.args)} & self.names
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            for keyword in decorator.keywords:
                if keyword.arg in names and self.program.binding_of(decorator.func) is not None:
                    source = self.program.sources[path]
                    place = source.offset(keyword.lineno, keyword.col_offset)
                    self.found.append(Use(path, place, keyword.arg, (own[keyword.arg],)))
            if ast.unparse(decorator.func).endswith("parametrize"):
                for argument in (
                    *decorator.args[:1],
                    *(k.value for k in decorator.keywords if k.arg == "indirect"),
                ):
                    for inner in ast.walk(argument):
                        self._words(path, inner, names, own)

    def _words(self, path: str, node: ast.AST, names: Collection[str], own: dict[str, Binding]) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for name in {word.strip() for word in node.value.split(",")} & set(names):
                self.found.append(Use(path, self._inside(path, node, name), name, (own[name],)))

    def _slots(self, path: str, node: ast.Assign) -> None:
        scope = self.program.scopes[path].of_node[node]
        named = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if scope.kind == "class" and named & {"__slots__", "__match_args__", "_fields"}:
            class_name = self.program.class_name[scope]
            for inner in ast.walk(node.value):
                if isinstance(inner, ast.Constant) and inner.value in self.names:
                    place = self._inside(path, inner, str(inner.value))
                    self.found.append(
                        Use(
                            path,
                            place,
                            str(inner.value),
                            (("member", class_name, str(inner.value)),),
                        )
                    )
