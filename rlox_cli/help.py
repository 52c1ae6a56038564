"""`rlox COMMAND --help`: every key with its default, range and meaning, from the dataclasses."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rlox.configs.params import expectation
from rlox_cli.command import Alias, Command
from rlox_cli.exit_codes import FAILED, MEANINGS
from rlox_cli.options import conf_folders, group_options
from rlox_cli.schema import Group, Key, Schema, keys_of

FLAGS = """\
flags (Hydra's, all of them work)
  --cfg job            print the configuration instead of running
  --info defaults      where each part of it comes from
  --config-dir FOLDER  a conf folder of your own (also RLOX_CONF_PATH)
{several}  +key=value, ~key     add or remove a key
  HYDRA_FULL_ERROR=1   (environment) the full traceback of an error"""
INDENT = 38
# What the keys are about that the jobs of a command do not have.
BESIDE = {"sweep": " of several runs", "search": " of rlox sweep search=ALGO"}
# What total_steps counts, by an algorithm's unit.
COUNTED = {
    "env_steps": "counts environment steps, all copies together",
    "updates": "counts updates",
    "samples": "counts samples",
}


def command_help(command: Command, args: Sequence[str] = (), alias: Alias | None = None) -> str:
    """The help text of one command, with the keys of the options that `args` choose.

    That of an `alias` says how it is typed, and before the keys what it does.
    """
    schema = command.schema
    parts = schema.chosen(args, conf_folders())
    name, takes = (alias.name, alias.takes) if alias else (command.name, command.takes)
    usage = " ".join(filter(None, ["usage: rlox", name, takes, "[key=value ...]"]))
    blocks = [usage, *([f"{alias.summary}.", command.more] if alias else [command.notes])]
    if schema.groups:
        blocks.append(_groups(schema, {tag for part in parts for tag in part.tags}))
    for group in schema.groups:
        chosen = [(p.mount, tag) for p in parts if p.group == group for tag in p.tags]
        shown = {tag for _, tag in chosen}
        for mount, tag in chosen:
            unused = getattr(group.registry[tag], "drops", {})
            keys = [
                key
                for key in schema.as_brought(group.part(tag, mount).keys, parts)
                if key.field.name not in unused
            ]
            blocks.append(_option(group, tag, keys, shown))
    rest = schema.as_brought(schema.keys(()), parts)
    blocks += [
        _block(section or "run", (k for k in rest if _section(k) == section))
        for section in dict.fromkeys(_section(key) for key in rest)
    ]
    for prefix, options in command.beside.items():
        about = BESIDE.get(prefix, "")
        blocks.append(_block(prefix, keys_of(options, f"{prefix}."), about))
    blocks += [command.more] * bool(command.more and not alias)
    several = "  -m                   one run per combination of values\n" * command.sweeps
    return "\n\n".join([*blocks, FLAGS.format(several=several), _codes(command)])


def value_text(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{','.join(map(value_text, value))}]"
    return str(value)


def _option(group: Group, tag: str, keys: Iterable[Key], shown: Collection[str]) -> str:
    """The keys of one option, under its name where the group has others."""
    if len(group.registry) == 1:
        return _block(group.name, keys)
    others = ", ".join(f"{group.name}={other}" for other in group.registry if other not in shown)
    counted = COUNTED.get(getattr(group.registry[tag], "unit", ""), "")
    notes = (counted, f"others: {others}" if others else "")
    more = "".join(f"; {note}" for note in notes if note)
    return _block(f"{group.name}={tag}", keys, more)


def _block(title: str, keys: Iterable[Key], more: str = "") -> str:
    return "\n".join([f"{title} (key=default  meaning{more})", *map(_line, keys)])


def _groups(schema: Schema, shown: Collection[str]) -> str:
    """The options of each group; presets of what is not shown are left out, there are many."""
    tags = (tag for group in schema.groups for tag in group.registry)
    others = tuple(f"{tag}/" for tag in tags if tag not in shown)
    lines, folders = ["groups (group=option)"], conf_folders()
    listed = {group.name: group.listed for group in schema.groups}
    for group in (*listed, *schema.presets):
        names = listed.get(group) or ", ".join(
            name for name in group_options(group, folders) if not name.startswith(others)
        )
        if names:
            lines += textwrap.wrap(
                names, _width() - 11, initial_indent=f"  {group:<9}", subsequent_indent=" " * 11
            )
    return "\n".join([*lines, f"  {schema.hint}"] if schema.hint else lines)


def _codes(command: Command) -> str:
    meanings = MEANINGS | {FAILED: command.failed}
    return "\n".join(["exit codes", *(f"  {code:<4} {meanings[code]}" for code in command.codes)])


def _section(key: Key) -> str:
    return key.name.split(".")[0] if "." in key.name else ""


def _line(key: Key) -> str:
    head = f"  {key.name}={value_text(key.default)}"
    choices = key.field.metadata.get("choices")
    accepts = "" if choices and len(choices) == 1 else expectation(key.field)
    meaning = key.doc + (f"; {accepts}" if accepts else "")
    wrapped = textwrap.wrap(
        meaning, _width(), initial_indent=f"{head:<36}  ", subsequent_indent=" " * INDENT
    )
    return "\n".join(wrapped or [head])


def _width() -> int:
    return max(80, min(120, shutil.get_terminal_size().columns))
