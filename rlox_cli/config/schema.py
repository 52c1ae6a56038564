"""The keys of a command: fields of the dataclasses in `rlox.configs`, option by option.

A choice on the command line (`algo=ppo`, `buffer=rollout`, `logger=[csv]`) is a tagged union, a
`Group`: one registry maps each option to its dataclass. Nothing else here knows an option's name.

Hydra gets the leaves untyped on purpose: its struct mode finds unknown keys, and only `rlox.configs`
checks types and ranges, so each mistake has one message.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from rlox.configs.base import AlgorithmConfig
from rlox.configs.params import type_hints_of
from rlox_cli.config.options import CONF, read_config_file, read_option_file

REQUIRED = "???"  # the value of a key that has no default and was not given, as in Hydra


@dataclass(frozen=True)
class Key:
    """One configurable key: its full dotted name and the field that declares it."""

    name: str
    field: Field[Any]
    hint: Any
    option_default: Any = None  # a chosen option's default in place of the field's

    @property
    def doc(self) -> str:
        """The meaning of the key, in one line."""
        return str(self.field.metadata.get("doc", ""))

    @property
    def is_required(self) -> bool:
        """Whether the key has no default."""
        return self.field.default is MISSING and self.field.default_factory is MISSING

    @property
    def is_open(self) -> bool:
        """Whether the keys below it belong to the environment or other code, not to rlox."""
        return typing.get_origin(self.hint) is dict or self.field.metadata.get("code") in (
            "one",
            "many",
        )

    @property
    def default(self) -> Any:
        """The default value; `???` if the key must be given."""
        if self.option_default is not None:
            return self.option_default
        if self.field.default is not MISSING:
            return self.field.default
        return REQUIRED if self.field.default_factory is MISSING else self.field.default_factory()


@dataclass(frozen=True)
class Group:
    """A part of the configuration that the command line chooses: a tagged union.

    `registry` has the dataclass of each tag, which is the option's `name` in a composed
    configuration. With `is_multiple`, several options may be chosen at once, each under its own name.
    """

    name: str
    registry: Mapping[str, type[Any]]
    is_multiple: bool = False
    help_listing: str = ""  # text for --help if there are too many options to list
    content_without_file: Callable[[str], Mapping[str, Any]] = lambda option: {}  # of options without a file

    def content(self, option: str, folders: Sequence[Path]) -> Mapping[str, Any]:
        """Return the content of an option's file, or what stands for it; empty for an unknown option."""
        return read_option_file(self.name, option, folders) or self.content_without_file(option)

    def tag(self, option: str, folders: Sequence[Path]) -> str | None:
        """Return the tag of an option: itself, or that of the option that its file is built on."""
        if len(self.registry) == 1:
            return next(iter(self.registry))
        pending, visited = [option], set[str]()
        while pending:
            name = pending.pop(0)
            if name in self.registry:
                return name
            if name not in visited:
                visited.add(name)
                pending += base_options(self.content(name, folders))
        return None

    def option_for(self, tag: str | None, mount: str = "") -> ChosenOption:
        """Return the option of a tag; for an unknown tag, with every key that it could have."""
        known = tag is not None and tag in self.registry
        return ChosenOption(self, (str(tag),) if known else tuple(self.registry), mount)


@dataclass(frozen=True)
class ChosenOption:
    """A chosen option, and the place of its keys: below `algo.`, or below `logger.csv.`."""

    group: Group
    tags: tuple[str, ...]
    mount: str = ""

    @property
    def keys(self) -> list[Key]:
        """Every key of the option."""
        prefix = f"{self.group.name}.{self.mount}." if self.mount else f"{self.group.name}."
        return _unique(k for tag in self.tags for k in keys_of(self.group.registry[tag], prefix))

    @property
    def default_overrides(self) -> dict[str, Any]:
        """Defaults that the option sets outside its group; none if there are several options."""
        return default_overrides_of(self.group.registry[self.tags[0]]) if len(self.tags) == 1 else {}


@dataclass(frozen=True)
class Schema:
    """The names that one command accepts left of `=`.

    `dataclass` is that of the whole configuration; it has a field for each group. Besides the keys there are
    groups of presets, which only set keys, and special keys that make the command do something else.
    `primary` is the file in conf/ whose defaults are chosen unless the command line overrides them.
    """

    name: str
    dataclass: type[Any]
    primary: str
    groups: tuple[Group, ...] = ()
    presets: tuple[str, ...] = ()
    choosing_presets: tuple[str, ...] = ()  # the presets that may also choose options
    special_keys: tuple[str, ...] = ()
    hint: str = ""  # for --help, below the groups

    def chosen_options(
        self, overrides: Iterable[str], folders: Sequence[Path] = (CONF,)
    ) -> list[ChosenOption]:
        """Return the options that a command line chooses in each group, several in a sweep.

        If a preset or an expression chooses, all options of the group are returned.
        """
        pairs = [o.lstrip("+").partition("=") for o in overrides if "=" in o]
        values = {key: value for key, _, value in pairs}
        defaults = None if self._preset_chooses(values) else self._defaults()
        options: dict[str, list[str]] = {}
        chosen: list[ChosenOption] = []
        for group in self.groups:
            options[group.name] = option_names = _named_options(group, values, defaults, options, folders)
            tags = {option: group.tag(option, folders) for option in option_names}
            known = {option: tag for option, tag in tags.items() if tag is not None}
            if group.is_multiple:
                chosen += [group.option_for(tag, option) for option, tag in known.items()]
            else:
                chosen += [group.option_for(tag) for tag in dict.fromkeys(known.values() or group.registry)]
        return chosen

    def options_of(self, data: Mapping[str, Any]) -> list[ChosenOption]:
        """Return the options that a composed or saved configuration has chosen."""
        chosen: list[ChosenOption] = []
        for group in self.groups:
            node = data.get(group.name)
            if group.is_multiple:
                inner = node if isinstance(node, Mapping) else {}
                chosen += [group.option_for(_tag(value), str(name)) for name, value in inner.items()]
            else:
                chosen.append(group.option_for(_tag(node)))
        return chosen

    def keys(self, options: Iterable[ChosenOption]) -> list[Key]:
        """Return every key, in the order of the groups and then of the dataclass."""
        group_names = {group.name for group in self.groups}
        rest = (k for k in keys_of(self.dataclass, "") if k.name.split(".")[0] not in group_names)
        return _unique([*(key for option in options for key in option.keys), *rest])

    def with_option_defaults(self, keys: Iterable[Key], options: Sequence[ChosenOption]) -> list[Key]:
        """Return the keys with the defaults that options set if they are alone in their group."""
        groups = [option.group.name for option in options]
        single_options = [option for option in options if groups.count(option.group.name) == 1]
        option_defaults = {
            name: value for option in single_options for name, value in option.default_overrides.items()
        }
        return [replace(key, option_default=option_defaults.get(key.name)) for key in keys]

    def names(self, keys: Iterable[Key]) -> list[str]:
        """Return every name that is accepted left of `=` if these are the keys."""
        groups = [group.name for group in self.groups]
        return [*groups, *self.presets, *self.special_keys, *(key.name for key in keys)]

    def owners(self, key: str) -> list[str]:
        """Return the options that have a key, as they are typed: `algo=ppo`."""
        return [
            f"{group.name}={tag}"
            for group in self.groups
            for tag in group.registry
            if key in (k.name for k in group.option_for(tag, tag if group.is_multiple else "").keys)
            and key.rpartition(".")[2] not in getattr(group.registry[tag], "drops", {})
        ]

    def node(self, path: str) -> dict[str, Any] | None:
        """Return the defaults that files in conf/ call `schema/<path>`; `None` if there are none.

        The path `<group>/<option>` has the defaults of an option, and `brings/<option>` the defaults that the
        option sets for other keys. The schema's name as path has the defaults of all keys outside the groups.
        """
        if path == self.name:
            multiplicity = {group.name: group.is_multiple for group in self.groups}
            rest = {
                key: value for key, value in defaults_of(self.dataclass).items() if key not in multiplicity
            }
            return {**rest, **{name: {} for name, is_multiple in multiplicity.items() if is_multiple}}
        group_name, _, tag = path.partition("/")
        for group in self.groups:
            if tag in group.registry and group_name == group.name:
                return defaults_of(group.registry[tag])
            if tag in group.registry and group_name == "brings":
                return nested_dict(default_overrides_of(group.registry[tag])) or None
        return None

    def _preset_chooses(self, values: Mapping[str, str]) -> bool:
        return any(values.get(preset, "null") != "null" for preset in self.choosing_presets)

    def _defaults(self) -> dict[str, Any]:
        listed = read_config_file(CONF / f"{self.primary}.yaml").get("defaults", [])
        return {k: v for entry in listed if isinstance(entry, dict) for k, v in entry.items()}


def keys_of(cls: type[Any], prefix: str) -> tuple[Key, ...]:
    """Return the keys that a dataclass declares, including those of nested dataclasses."""
    return _keys_of(typing.cast(Any, cls), prefix)


@functools.cache
def _keys_of(cls: Any, prefix: str) -> tuple[Key, ...]:
    keys: list[Key] = []
    for field in fields(cls):
        hint: Any = type_hints_of(cls)[field.name]
        name = f"{prefix}{field.name}"
        is_nested = is_dataclass(hint)
        keys += _keys_of(hint, f"{name}.") if is_nested else (Key(name, field, hint),)
    return tuple(keys)


def is_below_open_key(key: str, keys: Iterable[Key]) -> bool:
    """Return whether `key` is below one that takes any names."""
    return any(key.startswith(f"{k.name}.") for k in keys if k.is_open)


def _named_options(
    group: Group,
    values: Mapping[str, str],
    defaults: Mapping[str, Any] | None,
    earlier_options: Mapping[str, list[str]],
    folders: Sequence[Path],
) -> list[str]:
    """Return the options named for a group; `${group}` stands for those of an earlier group."""
    if group.name in values:
        value: Any = values[group.name]
    elif defaults is None:
        return list(group.registry)
    else:
        value = defaults.get(group.name)
    option_names = [str(v) for v in value] if isinstance(value, list) else _split_list(str(value or ""))
    option_names = [n for option in option_names for n in _resolve_choice(group, option, folders)]
    for name, options in earlier_options.items():
        option_names = [n.replace(f"${{{name}}}", o) for n in option_names for o in options]
    has_expression = any(mark in name for name in option_names for mark in "($")
    return list(group.registry) if has_expression else list(dict.fromkeys(option_names))


def _split_list(value: str) -> list[str]:
    return [name for name in re.split(r"[\[\],\s]+", value) if name and name != "null"]


def _resolve_choice(group: Group, option: str, folders: Sequence[Path]) -> list[str]:
    """Return the option, or the bases of its file that depend on another group's choice (`${group}`)."""
    base_names = base_options(group.content(option, folders))
    return [name for name in base_names if "${" in name] or [option]


def base_options(content: Mapping[str, Any]) -> list[str]:
    """Return the options that an option's file refers to: its tag, then those in its defaults."""
    options = [str(content["name"])] if "name" in content else []
    for entry in content.get("defaults") or ():
        if isinstance(entry, str):
            options.append(entry.split("@")[0].rsplit("/")[-1])
        elif isinstance(entry, dict):  # a folder below the group's
            subfolders = {k.split("@")[0]: v for k, v in entry.items() if not k.startswith("/")}
            options += [f"{folder}/{option}" for folder, option in subfolders.items()]
    return options


def _tag(node: Any) -> str | None:
    return str(node.get("name")) if isinstance(node, Mapping) else None


def defaults_of(cls: type[Any]) -> dict[str, Any]:
    """Return the defaults of a dataclass as plain data, `???` where there is none."""
    return nested_dict({key.name: key.default for key in keys_of(cls, "")})


def default_overrides_of(cls: type[Any]) -> dict[str, Any]:
    """Return the defaults that an algorithm sets for other keys (`AlgorithmConfig.default_overrides`)."""
    return dict(cls.default_overrides) if issubclass(cls, AlgorithmConfig) else {}


def nested_dict(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"env.n_envs": 1}` as a tree of plain data."""
    tree: dict[str, Any] = {}
    for name, value in dotted.items():
        *path, last = name.split(".")
        inner = tree
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = list(value) if isinstance(value, tuple) else value
    return tree


def _unique(keys: Iterable[Key]) -> list[Key]:
    return list({key.name: key for key in reversed(list(keys))}.values())[::-1]
