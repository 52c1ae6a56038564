"""The edits that a table comes to, with all that it refuses and all that a person must look at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from renaming.collisions import Clash, class_clashes, scope_clashes
from renaming.inference import Inference
from renaming.links import Links
from renaming.program import Program, Thing
from renaming.saved import is_parameter, read_by_name
from renaming.scopes import Binding
from renaming.sources import module_name
from renaming.table import MODULE_KINDS, Choice, Frozen, Row, choose, is_field
from renaming.uses import Use, Uses


@dataclass
class Plan:
    """What `apply` does: edits by file and byte offset, files that move, and reports."""

    choice: Choice
    edits: dict[str, dict[int, tuple[str, str]]] = field(default_factory=lambda: defaultdict(dict))
    unresolved: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    applied: list[Row] = field(default_factory=list)
    names: dict[Thing, str] = field(default_factory=dict)  # new names of all that is renamed
    hosts: dict[str, tuple[str, list[int]]] = field(default_factory=dict)  # of programs in strings

    def edit(self, path: str, place: int, old: str, new: str) -> None:
        """Replace `old` at a place; the same twice is one edit."""
        if path in self.hosts:
            path, places = self.hosts[path]
            place = places[place]
        if old != new and self.edits[path].setdefault(place, (old, new)) != (old, new):
            self.unresolved.append(f"{path}: two new names at byte {place}: {old} -> {new}")


class Planner:
    """Decides group by group."""

    def __init__(self, program: Program, rows: Iterable[Row], root: Path) -> None:
        self.program = program
        self.choice = choose(program, rows, root)
        self.plan = Plan(self.choice, hosts=program.hosts)
        self.frozen = Frozen(program, root)
        names = {thing.name if isinstance(thing, Binding) else thing[-1] for thing in self.choice.wanted}
        self.moved = {module_name(p): module_name(row.new_path) for p, row in self.choice.moves.items()}
        names |= {name.rpartition(".")[2] for name in self.moved}
        self.inference = Inference(program)
        self.links = Links(program, self.inference, names)
        self.uses = Uses(program, self.inference, names)
        self.things = self._all_things(names)
        self.by_name: dict[str, list[tuple[bool, str]]] = defaultdict(list)
        for name, is_saved, place in read_by_name(program, self.inference):
            for base in program.facts(name).lookup:
                self.by_name[base].append((is_saved, place))
        self.read_at: dict[str, set[str]] = defaultdict(set)
        self.kept: set[Binding] = set()  # imports that keep their name by an `as`
        self.refused: dict[object, str] = {}

    def _all_things(self, names: set[str]) -> list[Thing]:
        program = self.program
        things: list[Thing] = [("module", name) for name in program.modules]
        for scopes in program.scopes.values():
            for scope in scopes.module.walk():
                things += [binding for binding in scope.bindings.values() if binding.name in names]
        for name in program.classes:
            things += [("member", name, attribute) for attribute in program.facts(name).names & names]
        return things

    # -- what is wanted

    def wanted(self) -> dict[object, dict[str, list[Row]]]:
        """Rows by group and new name."""
        found: dict[object, dict[str, list[Row]]] = {}
        for thing, rows in self.choice.wanted.items():
            for row in rows:
                found.setdefault(self.links.groups.root(thing), {}).setdefault(row.new, []).append(row)
        for old, new in self.moved.items():
            row = self.choice.moves[self.program.modules[old]]
            root = self.links.groups.root(("module", old))
            found.setdefault(root, {}).setdefault(new.rpartition(".")[2], []).append(row)
        return found

    def make(self) -> Plan:
        """Decide, then collect the edits."""
        self._follow(self.links.protocol_members())
        self._follow(list(self.links.overridden_parameters()))
        wanted = self.wanted()
        members: dict[object, list[Thing]] = defaultdict(list)
        for thing in self.things:
            root = self.links.groups.root(thing)
            if root in wanted:
                members[root].append(thing)
        outside = {self.links.groups.root(thing) for thing in self.links.outside}
        for root, by_name in wanted.items():
            if len(by_name) > 1:
                self.refused[root] = "rows disagree: " + ", ".join(sorted(by_name))
            elif root in outside:
                self.refused[root] = "another package names it too"
            else:
                reasons = [self.frozen.reason(thing) or self._saved(thing) for thing in members[root]]
                if reason := next((reason for reason in reasons if reason), ""):
                    self.refused[root] = reason
        names = self._settle(wanted, members)
        self._collect(names, members)
        self._report(wanted)
        for place, fields in sorted(self.read_at.items()):
            self.plan.notes.append(f"{place}: reads by name, perhaps: {', '.join(sorted(fields))}")
        return self.plan

    def _saved(self, thing: Thing) -> str:
        """Why a field may not be renamed, or a note on where it is read by its name."""
        if not isinstance(thing, tuple) or thing[0] != "member" or thing[1] not in self.program.classes:
            return ""
        scope = self.program.classes[thing[1]]
        if is_parameter(self.program, self.inference, thing[1], thing[-1]):
            return "a key of the weights of a torch module"
        is_method = thing[-1] in scope.bindings and scope.bindings[thing[-1]].nodes
        for is_saved, place in self.by_name.get(thing[1], ()) if not is_method else ():
            if is_saved and is_field(scope, thing[-1]):
                return f"a key of what is made at {place}"
            self.read_at[place].add(self.show(thing))
        return ""

    def _follow(self, pairs: Iterable[tuple[Thing, Thing]]) -> None:
        """Join pairs of which one is renamed and the other may be."""
        wanted = {root: set(names) for root, names in self.wanted().items()}
        for first, second in pairs:
            one, other = self.links.groups.root(first), self.links.groups.root(second)
            mine, theirs = wanted.get(one, set()), wanted.get(other, set())
            if one == other or not (mine or theirs):
                continue
            if len(mine | theirs) > 1:
                self.plan.notes.append(
                    f"not joined: {self.show(first)} and {self.show(second)}: {mine | theirs}"
                )
                continue
            self.links.groups.join(one, other)
            wanted[self.links.groups.root(one)] = mine | theirs

    def show(self, thing: Thing) -> str:
        """A thing as the reports name it."""
        if isinstance(thing, Binding):
            scope = thing.scope.function().qualname
            return f"{self.program.path(thing.scope)}:{scope + '.' if scope else ''}{thing.name}"
        return ".".join(thing[1:])

    # -- collisions

    def _settle(
        self, wanted: dict[object, dict[str, list[Row]]], members: dict[object, list[Thing]]
    ) -> dict[Thing, str]:
        """New names, without those that clash."""
        while True:
            names: dict[Thing, str] = {}
            for root, by_name in wanted.items():
                if root not in self.refused:
                    for thing in members[root]:
                        if thing not in self.kept:
                            names[thing] = next(iter(by_name))
            clashes = [*scope_clashes(self.program, names), *class_clashes(self.program, names)]
            if not clashes:
                return names
            for clash in clashes:
                self._give_way(clash, names)

    def _give_way(self, clash: Clash, names: dict[Thing, str]) -> None:
        for thing in clash.things:
            if isinstance(thing, Binding) and thing in names and self._may_keep(thing):
                self.kept.add(thing)
                self.plan.notes.append(f"kept by an `as`: {self.show(thing)} ({clash.why})")
                return
        culprit = next(thing for thing in clash.things if thing in names)
        self.refused.setdefault(self.links.groups.root(culprit), clash.why)

    def _may_keep(self, binding: Binding) -> bool:
        is_plain = binding.kinds == {"import"} or binding.kinds == {"import", "variable"}
        return is_plain and binding not in self.links.is_import_target and binding not in self.kept

    # -- edits

    def _collect(self, names: dict[Thing, str], members: dict[object, list[Thing]]) -> None:
        plan = self.plan
        plan.names = names
        for thing, new in names.items():
            if isinstance(thing, Binding):
                path = self.program.path(thing.scope)
                for place in thing.places:
                    plan.edit(path, place, thing.name, new)
                for other_path, place in self.links.imported_as.get(thing, ()):
                    plan.edit(other_path, place, thing.name, new)
        for binding in self.kept:
            self._keep(binding)
        for use in self.uses.found:
            self._use(use, names)

    def _keep(self, binding: Binding) -> None:
        """Write `new as old` where the import's target has a new name."""
        path = self.program.path(binding.scope)
        root = self.links.groups.root(binding)
        rows = self.wanted().get(root, {})
        new = next(iter(rows)) if rows and root not in self.refused else ""
        for reference in self.program.scopes[path].references if new else ():
            if reference.binding is binding and type(reference.node).__name__ == "alias":
                self.plan.edit(path, reference.place, binding.name, f"{new} as {binding.name}")

    def _use(self, use: Use, names: dict[Thing, str]) -> None:
        where = f"{use.path}:{self.program.sources[use.path].line_of(use.place)}: {use.name}"
        if use.things:
            new = {self._new_name(thing, names) for thing in use.things}
            if new == {None}:
                return
            if len(new) == 1:
                self.plan.edit(use.path, use.place, use.name, str(new.pop()))
            else:
                self.plan.unresolved.append(
                    f"{where}: several classes: {', '.join(map(self.show, use.things))}"
                )
            return
        groups = {self.links.groups.root(thing): thing for thing in use.candidates}
        new = {self._new_name(thing, names) for thing in groups.values()}
        if new == {None}:
            return
        if len(new) == 1 and use.why != "an attribute of other packages too":
            self.plan.edit(use.path, use.place, use.name, str(new.pop()))
            if len(groups) > 1:
                self.plan.notes.append(f"{where}: one of several classes, all renamed alike")
        else:
            renamed = [thing for thing in groups.values() if self._new_name(thing, names)]
            shown = ", ".join(
                f"{self.show(thing)} -> {self._new_name(thing, names)}" for thing in renamed[:4]
            )
            self.plan.unresolved.append(f"{where}: {use.why}: {shown}")

    def _new_name(self, thing: Thing, names: dict[Thing, str]) -> str | None:
        if thing in names:
            return names[thing]
        if isinstance(thing, tuple) and thing[0] == "member":
            binding = (
                self.program.classes[thing[1]].bindings.get(thing[-1])
                if thing[1] in self.program.classes
                else None
            )
            return names.get(binding) if binding is not None else None
        return None

    def _report(self, wanted: dict[object, dict[str, list[Row]]]) -> None:
        applied: dict[Row, None] = {}
        refused: dict[Row, str] = {}
        for root, by_name in wanted.items():
            rows = dict.fromkeys(row for found in by_name.values() for row in found)
            if root in self.refused:
                refused |= dict.fromkeys(rows, self.refused[root])
            else:
                applied |= rows
        for row, reason in refused.items():
            self.choice.refused.append((row, reason))
            if row.kind in MODULE_KINDS:
                del self.choice.moves[row.path]
        self.plan.applied = [row for row in applied if row not in refused]


def lines(rows: Iterable[tuple[Row, str]]) -> Iterator[str]:
    """Rows with their reasons."""
    for row, reason in rows:
        yield f"{row}: {reason}"
