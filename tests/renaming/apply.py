"""Applies a table to the files of a repository."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from renaming.code_strings import programs
from renaming.plan import Plan, Planner
from renaming.program import Program
from renaming.scopes import Binding
from renaming.sources import Source, read_sources, tracked_files
from renaming.strings import Strings, mentions
from renaming.table import Row
from renaming.types import Types, read_types

# ends of the names of files that name modules
TEXT = (".toml", ".yaml", ".json", ".md", ".rs", ".sh", ".cff", "run", "nightly")


def make_plan(root: Path, rows: Iterable[Row], cache: Path) -> tuple[Program, Plan]:
    """What applying the rows comes to; changes nothing."""
    sources = read_sources(root)
    types: Types = read_types(root, sources, cache)
    inner = programs(sources)
    with_inner = sources | {path: source for path, (source, _, _) in inner.items()}
    program = Program(with_inner, types, hosts={path: found[1:] for path, found in inner.items()})
    plan = Planner(program, rows, root).make()
    Strings(program, plan)
    return program, plan


def edited(source: Source, edits: dict[int, tuple[str, str]]) -> str:
    """The text of a file with its edits."""
    data, parts, at = source.data, [], 0
    for place, (old, new) in sorted(edits.items()):
        if place < at:
            continue  # inside another edit
        if data[place : place + len(old.encode())] != old.encode():
            raise ValueError(f"{source.path}: no {old} at byte {place}")
        parts += [data[at:place], new.encode()]
        at = place + len(old.encode())
    return b"".join([*parts, data[at:]]).decode()


def write(root: Path, program: Program, plan: Plan, record: Path) -> None:
    """Edit and move the files; leave a record of the edits."""
    for path, edits in plan.edits.items():
        if edits:
            text = edited(program.sources[path], edits)
            (root / path).write_text(text, encoding="utf-8", newline="")
    moves = {path: row.new_path for path, row in plan.choice.moves.items()}
    for path, target in moves.items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", path, f"{target}.moving"], cwd=root, check=True)
    for target in moves.values():
        subprocess.run(["git", "mv", f"{target}.moving", target], cwd=root, check=True)
    record.parent.mkdir(parents=True, exist_ok=True)
    places = {
        path: [[place, old, new] for place, (old, new) in sorted(edits.items())]
        for path, edits in sorted(plan.edits.items())
        if edits
    }
    record.write_text(json.dumps({"moves": moves, "edits": places}, indent=0) + "\n", encoding="utf-8")


def places_in_text(root: Path, plan: Plan) -> list[str]:
    """Lines of documents, comments and other files that have an old name; only a person can judge them."""
    names = {
        thing.name if isinstance(thing, Binding) else thing[-1]: new
        for thing, new in plan.names.items()
        if not isinstance(thing, Binding) or thing.scope.kind in ("module", "class")
    }
    found = []
    for suffix in (".md", ".py"):
        for path in tracked_files(root, suffix):
            for number, word in mentions((root / path).read_text(encoding="utf-8"), names):
                found.append(f"{path}:{number}: `{word}` is now {names[word]}")
    return found + _modules_in_text(root, plan)


def _modules_in_text(root: Path, plan: Plan) -> list[str]:
    """Lines of files other than Python that name a module that moves."""
    moves = {path.removesuffix(".py"): row.new_path for path, row in plan.choice.moves.items()}
    moves |= {name.replace("/", "."): new for name, new in moves.items() if "/" in name}
    if not moves:
        return []
    names = "|".join(map(re.escape, sorted(moves, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w/])({names})\b")
    found = []
    for path in (name for suffix in TEXT for name in tracked_files(root, suffix)):
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            found += [f"{path}:{number}: {word} is now {moves[word]}" for word in pattern.findall(line)]
    return found
