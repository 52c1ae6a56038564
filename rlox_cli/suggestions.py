"""What may come next on a command line: for completion in a shell, so it imports neither Hydra nor torch."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from rlox import plugins
from rlox.envs.optional import LATE_IDS
from rlox.errors import RloxError
from rlox_cli import commands
from rlox_cli.command import Command
from rlox_cli.help import value_text
from rlox_cli.options import conf_folders, named_options
from rlox_cli.schema import Key, keys_of

FLAGS = ("--help", "--cfg", "--info", "--config-dir", "--multirun")
AFTER = {"--cfg": ("job", "hydra", "all"), "--info": ("config", "defaults", "defaults-tree")}
RUNS = ("resume", "run", "init_from")  # keys that name a run folder
FOLDERS = ("run_root",)
DEVICES = ("auto", "cpu", "cuda", "mps")
DEEP = 5  # folders below runs/ that may have runs in them


def suggest(words: Sequence[str]) -> list[str]:
    """What the last of the words may become; the words are those after `rlox`.

    What ends in `=`, `.` or `/` is not a whole word yet.
    """
    *before, last = words or [""]
    found: Iterable[str] = ()
    if not before or before == ["help"]:
        found = _commands()
    elif (named := _command(before[0])) is not None:
        found = _of(*named, before[1:], last)
    return sorted({word for word in found if word.startswith(last) and word != last})


def _commands() -> list[str]:
    loaded = [commands.load(name) for name in commands.names()]
    return [*(c.name for c in loaded), *(c.alias.name for c in loaded if c.alias), "help"]


def _command(name: str) -> tuple[Command, bool] | None:
    """The command of that name, and whether the name is an alias of it."""
    if name in commands.names():
        return commands.load(name), False
    loaded = map(commands.load, commands.names())
    return next(((c, True) for c in loaded if c.alias and c.alias.name == name), None)


def _of(command: Command, alias: bool, before: Sequence[str], last: str) -> Iterable[str]:
    if before and before[-1] in AFTER:
        return AFTER[before[-1]]
    if before and before[-1] in ("--config-dir", "-cd"):
        return _folders(last)
    if last.startswith("-"):
        return FLAGS
    folder = next((b for a, b in pairwise(before) if a == "--config-dir"), None)
    given = [word for word in before if not word.startswith("-")]
    place = _Place(command, alias, given, conf_folders(folder))
    key, equals, value = last.partition("=")
    if equals:
        return (f"{key}={v}" for v in place.values(key.lstrip("+~"), value))
    bare = place.bare(last)
    return bare if alias and not given else [*bare, *place.names(last)]


class _Place:
    """Where a word stands: the command, what was given before, and so the keys that there are."""

    def __init__(
        self, command: Command, alias: bool, given: Sequence[str], folders: Sequence[Path]
    ) -> None:
        self.command, self.alias, self.given, self.folders = command, alias, given, folders
        schema = command.schema
        try:
            parts = schema.chosen(given, folders)
        except RloxError:  # a plugin that is broken, which the command itself will say
            parts = schema.chosen([], folders)
        beside = [key for name, kind in command.beside.items() for key in keys_of(kind, f"{name}.")]
        self.keys = {key.name: key for key in (*schema.keys(parts), *beside)}
        self.many = {group.name for group in schema.groups if group.many}
        self.groups = [*(group.name for group in schema.groups), *schema.presets]

    def names(self, typed: str) -> Iterator[str]:
        """What may stand left of `=`; of keys with dots one step, and none that was given."""
        given = {word.partition("=")[0] for word in self.given}
        words = [word for word in self.command.schema.words if word not in self.keys]
        for name in _by_step([*self.groups, *words, *self.keys], typed, "."):
            if name not in given:
                yield name if name.endswith(".") else f"{name}="

    def values(self, key: str, value: str) -> Iterator[str]:
        """What may stand right of `=`: in a list, or of several values, what the last may be."""
        head = value[: max(value.rfind(","), value.rfind("[")) + 1]
        if head.endswith(",") and not (value.startswith("[") or self.command.sweeps):
            return
        declared = self.keys.get(key)
        listed = key in self.many or (declared is not None and isinstance(declared.default, tuple))
        typed, used = value[len(head) :], head.strip("[,").split(",")
        opening = "[" if listed and not value and key not in self.many else ""
        for found in self._options(key, declared, typed):
            if found not in used:
                yield f"{head}{opening}{found}"

    def bare(self, typed: str) -> Iterable[str]:
        """What may stand without a key: a run folder, or values of the first keys that have choices."""
        if self.alias or "RUN" in self.command.takes:
            return [] if self.alias and self.given else _runs(typed)
        number = sum("=" not in word for word in self.given)
        fields = keys_of(self.command.schema.declares, "")
        if not self.command.takes or number >= len(fields):
            return []
        group = self.given[0] if number and "=" not in self.given[0] else ""
        return fields[number].field.metadata["choices"] or self._of_group(group, typed)

    def _options(self, key: str, declared: Key | None, typed: str) -> Iterable[str]:
        if key in self.groups:
            return self._of_group(key, typed)
        if key in RUNS:
            return _runs(typed)
        if key in FOLDERS:
            return _folders(typed)
        if key == "env.id" or (key == "env" and "env" not in self.groups):
            return self._of_group("env", typed)
        if declared is None:
            return ("true", "false") if key in self.command.schema.words else ()
        metadata = declared.field.metadata
        if metadata["choices"] or metadata["plugin"]:
            offered = plugins.names(metadata["plugin"] or "")
            return [str(word) for word in (*(metadata["choices"] or ()), *offered)]
        if declared.hint is bool:
            return ("true", "false")
        if key == "device":
            return DEVICES
        plain = declared.default is not None and not declared.required and not typed
        return [value_text(declared.default)] if plain and declared.default != () else ()

    def _of_group(self, group: str, typed: str) -> Iterable[str]:
        if not group or not all(part.isidentifier() for part in group.split("/")):
            return ()
        found = set(named_options(group, self.folders))
        if group == "env":
            found = (found | {*_gymnasium_ids(), *LATE_IDS}) - {"base"}
        return _by_step(found, typed, "/")


def _by_step(names: Iterable[str], typed: str, sign: str) -> set[str]:
    """The names that begin so, cut behind the next `sign` where several go on there: it may be hundreds."""
    steps: dict[str, set[str]] = {}
    for name in names:
        if name.startswith(typed):
            step, more, _ = name[len(typed) :].partition(sign)
            steps.setdefault(f"{typed}{step}{more}", set()).add(name)
    return {step if len(behind) > 1 else min(behind) for step, behind in steps.items()}


def _gymnasium_ids() -> list[str]:
    """The ids that Gymnasium registers itself, read from its source: importing it takes too long."""
    spec = importlib.util.find_spec("gymnasium")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    try:
        text = Path(places[0], "envs", "__init__.py").read_text(encoding="utf-8")
    except (IndexError, OSError):
        return []
    return re.findall(r"\bid=\"([^\"]+)\"", text)


def _runs(typed: str) -> list[str]:
    """Run folders below the folder that is typed, or below `runs`; else folders on the way."""
    head = typed[: typed.rfind("/") + 1] or "runs/"
    start = Path(head).expanduser()
    found = [f"{head}{path.relative_to(start)}" for path in _run_folders(start, DEEP)]
    return [path for path in found if path.startswith(typed)] or list(_folders(typed))


def _run_folders(folder: Path, deep: int) -> Iterator[Path]:
    try:
        inner = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return
    for path in map(Path, inner):
        if (path / "status.json").is_file():
            yield path
        elif deep and not path.name.startswith("."):
            yield from _run_folders(path, deep - 1)


def _folders(typed: str) -> Iterator[str]:
    """Folders that begin so, each with a slash: there may be more below."""
    head = typed[: typed.rfind("/") + 1]
    try:
        entries = [e.name for e in os.scandir(Path(head).expanduser()) if e.is_dir()]
    except OSError:
        return
    for name in entries:
        if not name.startswith(".") or typed[len(head) :].startswith("."):
            yield f"{head}{name}/"
