"""Completions of a command line; a shell waits for them, so this module imports neither Hydra nor torch."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from rlox import plugins
from rlox.envs.optional_packages import OPTIONAL_PACKAGE_IDS
from rlox.errors import RloxError
from rlox_cli import commands
from rlox_cli.config.options import conf_folders, declared_options
from rlox_cli.config.schema import Key, keys_of
from rlox_cli.shell.command import Command
from rlox_cli.shell.help import value_text

FLAGS = ("--help", "--cfg", "--info", "--config-dir", "--multirun")
FLAG_VALUES = {"--cfg": ("job", "hydra", "all"), "--info": ("config", "defaults", "defaults-tree")}
RUN_KEYS = ("resume", "run", "init_from")  # keys that name a run folder
FOLDER_KEYS = ("run_root",)
DEVICES = ("auto", "cpu", "cuda", "mps")
MAX_DEPTH = 5  # levels of folders below runs/ that may hold runs


def suggest(words: Sequence[str]) -> list[str]:
    """Return the completions of the last of `words`, the words after `rlox`.

    A completion that ends in `=`, `.` or `/` is not a whole word yet.
    """
    *before, last = words or [""]
    candidates: Iterable[str] = ()
    if not before or before == ["help"]:
        candidates = _command_names()
    elif (command_and_alias := _find_command(before[0])) is not None:
        candidates = _suggest_for(*command_and_alias, before[1:], last)
    return sorted({word for word in candidates if word.startswith(last) and word != last})


def _command_names() -> list[str]:
    loaded = [commands.load(name) for name in commands.names()]
    return [*(c.name for c in loaded), *(c.alias.name for c in loaded if c.alias), "help"]


def _find_command(name: str) -> tuple[Command, bool] | None:
    """Return the command of that name, and whether the name is an alias of it."""
    if name in commands.names():
        return commands.load(name), False
    loaded = map(commands.load, commands.names())
    return next(((c, True) for c in loaded if c.alias and c.alias.name == name), None)


def _suggest_for(command: Command, is_alias: bool, before: Sequence[str], last: str) -> Iterable[str]:
    if before and before[-1] in FLAG_VALUES:
        return FLAG_VALUES[before[-1]]
    if before and before[-1] in ("--config-dir", "-cd"):
        return _folders(last)
    if last.startswith("-"):
        return FLAGS
    folder = next((b for a, b in pairwise(before) if a == "--config-dir"), None)
    arguments = [word for word in before if not word.startswith("-")]
    context = _CompletionContext(command, is_alias, arguments, conf_folders(folder))
    key, equals, value = last.partition("=")
    if equals:
        return (f"{key}={v}" for v in context.values(key.lstrip("+~"), value))
    positional = context.positional_values(last)
    return positional if is_alias and not arguments else [*positional, *context.names(last)]


class _CompletionContext:
    """The context of the completed word: the command, the earlier arguments and the resulting keys."""

    def __init__(
        self, command: Command, is_alias: bool, arguments: Sequence[str], folders: Sequence[Path]
    ) -> None:
        self.command, self.is_alias, self.arguments, self.folders = command, is_alias, arguments, folders
        schema = command.schema
        try:
            chosen_options = schema.chosen_options(arguments, folders)
        except RloxError:  # a broken plugin, which the command itself reports
            chosen_options = schema.chosen_options([], folders)
        extra_keys = [
            key for name, kind in command.extra_options.items() for key in keys_of(kind, f"{name}.")
        ]
        self.keys = {key.name: key for key in (*schema.keys(chosen_options), *extra_keys)}
        self.multiple_groups = {group.name for group in schema.groups if group.is_multiple}
        self.groups = [*(group.name for group in schema.groups), *schema.presets]

    def names(self, typed: str) -> Iterator[str]:
        """Yield completions left of `=`: one step of dotted keys, and no key that was given."""
        given_keys = {word.partition("=")[0] for word in self.arguments}
        special_keys = [word for word in self.command.schema.special_keys if word not in self.keys]
        for name in _complete_step([*self.groups, *special_keys, *self.keys], typed, "."):
            if name not in given_keys:
                yield name if name.endswith(".") else f"{name}="

    def values(self, key: str, value: str) -> Iterator[str]:
        """Yield completions right of `=`; in a list or among several values, those of the last one."""
        prefix = value[: max(value.rfind(","), value.rfind("[")) + 1]
        if prefix.endswith(",") and not (value.startswith("[") or self.command.is_sweepable):
            return
        declared = self.keys.get(key)
        takes_list = key in self.multiple_groups or (
            declared is not None and isinstance(declared.default, tuple)
        )
        typed, used_values = value[len(prefix) :], prefix.strip("[,").split(",")
        opening = "[" if takes_list and not value and key not in self.multiple_groups else ""
        for option in self._option_values(key, declared, typed):
            if option not in used_values:
                yield f"{prefix}{opening}{option}"

    def positional_values(self, typed: str) -> Iterable[str]:
        """Return values without a key: a run folder, or values of the first keys that have choices."""
        if self.is_alias or "RUN" in self.command.usage_arguments:
            return [] if self.is_alias and self.arguments else _run_paths(typed)
        n_positional = sum("=" not in word for word in self.arguments)
        fields = keys_of(self.command.schema.dataclass, "")
        if not self.command.usage_arguments or n_positional >= len(fields):
            return []
        group = self.arguments[0] if n_positional and "=" not in self.arguments[0] else ""
        return fields[n_positional].field.metadata["choices"] or self._group_values(group, typed)

    def _option_values(self, key: str, declared: Key | None, typed: str) -> Iterable[str]:
        if key in self.groups:
            return self._group_values(key, typed)
        if key in RUN_KEYS:
            return _run_paths(typed)
        if key in FOLDER_KEYS:
            return _folders(typed)
        if key == "env.id" or (key == "env" and "env" not in self.groups):
            return self._group_values("env", typed)
        if declared is None:
            return ("true", "false") if key in self.command.schema.special_keys else ()
        metadata = declared.field.metadata
        if metadata["choices"] or metadata["plugin"]:
            offered = plugins.plugin_names(metadata["plugin"] or "")
            return [str(word) for word in (*(metadata["choices"] or ()), *offered)]
        if declared.hint is bool:
            return ("true", "false")
        if key == "device":
            return DEVICES
        has_default = declared.default is not None and not declared.is_required and not typed
        return [value_text(declared.default)] if has_default and declared.default != () else ()

    def _group_values(self, group: str, typed: str) -> Iterable[str]:
        if not group or not all(part.isidentifier() for part in group.split("/")):
            return ()
        names = set(declared_options(group, self.folders))
        if group == "env":
            names = (names | {*_gymnasium_ids(), *OPTIONAL_PACKAGE_IDS}) - {"base"}
        return _complete_step(names, typed, "/")


def _complete_step(names: Iterable[str], typed: str, separator: str) -> set[str]:
    """Return the names that begin with `typed`, shortened where several go on after the next `separator`.

    Of several names that share the text up to that separator, only this text is returned, once.
    """
    steps: dict[str, set[str]] = {}
    for name in names:
        if name.startswith(typed):
            step, rest, _ = name[len(typed) :].partition(separator)
            steps.setdefault(f"{typed}{step}{rest}", set()).add(name)
    return {step if len(completions) > 1 else min(completions) for step, completions in steps.items()}


def _gymnasium_ids() -> list[str]:
    """Return the ids that Gymnasium itself registers, read from its source: an import takes too long."""
    spec = importlib.util.find_spec("gymnasium")
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    try:
        text = Path(locations[0], "envs", "__init__.py").read_text(encoding="utf-8")
    except (IndexError, OSError):
        return []
    return re.findall(r"\bid=\"([^\"]+)\"", text)


def _run_paths(typed: str) -> list[str]:
    """Return run folders below the typed folder, or below `runs`; else folders that begin with `typed`."""
    prefix = typed[: typed.rfind("/") + 1] or "runs/"
    start = Path(prefix).expanduser()
    run_paths = [f"{prefix}{path.relative_to(start)}" for path in _run_folders(start, MAX_DEPTH)]
    return [path for path in run_paths if path.startswith(typed)] or list(_folders(typed))


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    try:
        subfolders = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return
    for path in map(Path, subfolders):
        if (path / "status.json").is_file():
            yield path
        elif depth and not path.name.startswith("."):
            yield from _run_folders(path, depth - 1)


def _folders(typed: str) -> Iterator[str]:
    """Yield the folders that begin with `typed`, each with a slash: more folders may follow."""
    prefix = typed[: typed.rfind("/") + 1]
    try:
        entries = [e.name for e in os.scandir(Path(prefix).expanduser()) if e.is_dir()]
    except OSError:
        return
    for name in entries:
        if not name.startswith(".") or typed[len(prefix) :].startswith("."):
            yield f"{prefix}{name}/"
