"""Names that would meet: two of one scope, one that hides another, two members of one class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from renaming.program import Program, Thing
from renaming.scopes import Binding, Reference, Scope


@dataclass(frozen=True)
class Clash:
    """Things of which one at least has to keep its name, those to give way first."""

    things: tuple[Thing, ...]
    why: str


def scope_clashes(program: Program, names: Mapping[Thing, str]) -> Iterator[Clash]:
    """Bindings that would be one, and references that would mean another binding."""
    new_names: dict[str, set[str]] = defaultdict(set)
    for thing, new in names.items():
        if isinstance(thing, Binding):
            new_names[program.path(thing.scope)].add(new)
    for path, finals in new_names.items():
        scopes = program.scopes[path]
        for scope in scopes.module.walk():
            yield from _same_scope(scope, names)
        for reference in scopes.references:
            is_renamed = reference.binding is not None and reference.binding in names
            if is_renamed or reference.name in finals:
                yield from _captured(reference, names)


def _final(binding: Binding, names: Mapping[Thing, str]) -> str:
    return names.get(binding, binding.name)


def _same_scope(scope: Scope, names: Mapping[Thing, str]) -> Iterator[Clash]:
    seen: dict[str, Binding] = {}
    for binding in scope.bindings.values():
        name = _final(binding, names)
        other = seen.setdefault(name, binding)
        if other is not binding:
            first, second = (binding, other) if binding in names else (other, binding)
            yield Clash((first, second), f"there is a {name} in {scope.qualname or 'the module'} already")


def _captured(reference: Reference, names: Mapping[Thing, str]) -> Iterator[Clash]:
    binding = reference.binding
    name = _final(binding, names) if binding is not None else reference.name
    if binding is not None and reference.name in reference.scope.outer:
        return
    for scope in reference.scope.chain(reference.name):
        if binding is not None and scope is binding.scope:
            return
        for other in scope.bindings.values():
            if other is not binding and _final(other, names) == name:
                where = scope.qualname or "the module"
                things = (binding, other) if binding in names and binding is not None else (other,)
                if any(thing in names for thing in things):
                    yield Clash(things, f"{name} of {where} would hide it or be hidden")
                return


def class_clashes(program: Program, names: Mapping[Thing, str]) -> Iterator[Clash]:
    """Members whose new name a class of the same line has already."""
    renamed: dict[str, list[tuple[Thing, str, str]]] = defaultdict(list)
    for thing, new in names.items():
        if isinstance(thing, tuple) and thing[0] == "member":
            renamed[thing[1]].append((thing, thing[-1], new))
    for class_name, members in renamed.items():
        line = {
            class_name,
            *program.facts(class_name).lookup,
            *program.subclasses.get(class_name, ()),
        }
        for sub in program.subclasses.get(class_name, ()):
            line |= set(program.types.classes[sub].lookup)
        for thing, old, new in members:
            for relative in line:
                known = program.types.classes.get(relative)
                if known is None or relative == "builtins.object":
                    continue
                stays = new in known.names and names.get(("member", relative, new), new) == new
                others = [o for _, o, n in renamed.get(relative, ()) if n == new and o != old]
                if stays or others:
                    yield Clash((thing,), f"{relative} has a {new} already")
                    break
