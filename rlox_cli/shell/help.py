"""`rlox COMMAND --help`: every key with its default, range and meaning, from the dataclasses."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from rlox.configs.params import expected_text
from rlox.presets import preset_algorithms
from rlox_cli.config.options import conf_folders, config_dir_of, group_options
from rlox_cli.config.schema import Group, Key, Schema, keys_of
from rlox_cli.shell.command import Alias, Command
from rlox_cli.shell.exit_codes import FAILED, MEANINGS

FLAGS = """\
flags (Hydra's, all of them work)
  --cfg job            print the configuration instead of running
  --info defaults      where each part of it comes from
  --config-dir FOLDER  a conf folder of your own (also RLOX_CONF_PATH)
{several}  +key=value, ~key     add or remove a key
  HYDRA_FULL_ERROR=1   (environment) the full traceback of an error"""
INDENT = 38
# Title suffixes of keys that the jobs of a command do not have.
EXTRA_OPTIONS_TITLES = {"sweep": " of several runs", "search": " of rlox sweep search=ALGO"}
# The meaning of total_steps, by the algorithm's unit.
UNIT_HELP = {
    "env_steps": "counts environment steps, all copies together",
    "updates": "counts updates",
    "samples": "counts samples",
}


def command_help(command: Command, args: Sequence[str] = (), alias: Alias | None = None) -> str:
    """Return the help text of one command, with the keys of the options that `args` choose.

    For an `alias`, its own usage, its summary and the epilog come before the keys.
    """
    schema, folders = command.schema, conf_folders(config_dir_of(args))
    chosen_options = schema.chosen_options(args, folders)
    name, usage_arguments = (
        (alias.name, alias.usage_arguments) if alias else (command.name, command.usage_arguments)
    )
    usage = " ".join(filter(None, ["usage: rlox", name, usage_arguments, "[key=value ...]"]))
    sections = [usage, *([f"{alias.summary}.", command.epilog] if alias else [command.description])]
    if schema.groups:
        sections.append(_group_lines(schema, {tag for part in chosen_options for tag in part.tags}, folders))
    for group in schema.groups:
        mounted_tags = [(p.mount, tag) for p in chosen_options if p.group == group for tag in p.tags]
        shown_tags = {tag for _, tag in mounted_tags}
        for mount, tag in mounted_tags:
            dropped = getattr(group.registry[tag], "drops", {})
            keys = [
                key
                for key in schema.with_option_defaults(group.option_for(tag, mount).keys, chosen_options)
                if key.field.name not in dropped
            ]
            sections.append(_option_section(group, tag, keys, shown_tags))
    rest = schema.with_option_defaults(schema.keys(()), chosen_options)
    sections += [
        _section_text(section or "run", (k for k in rest if _section_of(k) == section))
        for section in dict.fromkeys(_section_of(key) for key in rest)
    ]
    for prefix, options in command.extra_options.items():
        title_suffix = EXTRA_OPTIONS_TITLES.get(prefix, "")
        sections.append(_section_text(prefix, keys_of(options, f"{prefix}."), title_suffix))
    sections += [command.epilog] * bool(command.epilog and not alias)
    sweep_flag = "  -m                   one run per combination of values\n" * command.is_sweepable
    return "\n\n".join([*sections, FLAGS.format(several=sweep_flag), _exit_code_lines(command)])


def value_text(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return f"[{','.join(map(value_text, value))}]"
    return str(value)


def _option_section(group: Group, tag: str, keys: Iterable[Key], shown_tags: Collection[str]) -> str:
    """Return the keys of one option, under its name if the group has others."""
    if len(group.registry) == 1:
        return _section_text(group.name, keys)
    others = ", ".join(f"{group.name}={other}" for other in group.registry if other not in shown_tags)
    unit_help = UNIT_HELP.get(getattr(group.registry[tag], "unit", ""), "")
    notes = (unit_help, f"others: {others}" if others else "")
    title_suffix = "".join(f"; {note}" for note in notes if note)
    return _section_text(f"{group.name}={tag}", keys, title_suffix)


def _section_text(title: str, keys: Iterable[Key], title_suffix: str = "") -> str:
    return "\n".join([f"{title} (key=default  meaning{title_suffix})", *map(_key_line, keys)])


def _group_lines(schema: Schema, shown_tags: Collection[str], folders: Sequence[Path]) -> str:
    """Return the options of each group, without the many presets of options that are not shown."""
    tags = (tag for group in schema.groups for tag in group.registry)
    owners = {owner for tag in shown_tags for owner in preset_algorithms(tag)}
    others = tuple(f"{tag}/" for tag in tags if tag not in owners)
    lines = ["groups (group=option)"]
    listings = {group.name: group.help_listing for group in schema.groups}
    for group in (*listings, *schema.presets):
        names = listings.get(group) or ", ".join(
            name for name in group_options(group, folders) if not name.startswith(others)
        )
        if names:
            lines += textwrap.wrap(
                names, _width() - 11, initial_indent=f"  {group:<9}", subsequent_indent=" " * 11
            )
    return "\n".join([*lines, f"  {schema.hint}"] if schema.hint else lines)


def _exit_code_lines(command: Command) -> str:
    meanings = MEANINGS | {FAILED: command.failure_meaning}
    return "\n".join(["exit codes", *(f"  {code:<4} {meanings[code]}" for code in command.codes)])


def _section_of(key: Key) -> str:
    return key.name.split(".")[0] if "." in key.name else ""


def _key_line(key: Key) -> str:
    head = f"  {key.name}={value_text(key.default)}"
    choices = key.field.metadata.get("choices")
    expectation_text = "" if choices and len(choices) == 1 else expected_text(key.field)
    meaning = key.doc + (f"; {expectation_text}" if expectation_text else "")
    wrapped = textwrap.wrap(
        meaning,
        _width(),
        initial_indent=f"{head:<36}  ",
        subsequent_indent=" " * INDENT,
        break_on_hyphens=False,
    )
    return "\n".join(wrapped or [head])


def _width() -> int:
    return max(80, min(120, shutil.get_terminal_size().columns))
