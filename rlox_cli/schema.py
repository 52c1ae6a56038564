"""Which keys a command takes: fields of the dataclasses in `rlox.configs`, option by option.

What the command line chooses (`algo=ppo`, `buffer=rollout`, `logger=[csv]`) is a tagged union, a
`Group`: one registry says which dataclass an option has. Nothing else here knows an option's name.

Hydra gets the leaves untyped on purpose: its struct mode finds unknown keys, and `rlox.configs`
alone judges types and ranges, so each mistake has one wording.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from rlox.configs.base import AlgorithmConfig
from rlox.configs.params import hints_of
from rlox_cli.options import CONF, file_of, read_plain

REQUIRED = "???"  # the value of a key that has no default and was not given, as in Hydra


@dataclass(frozen=True)
class Key:
    """One configurable key: its full dotted name and the field that declares it."""

    name: str
    field: Field[Any]
    hint: Any
    brought: Any = None  # the default that a chosen option has in place of the field's

    @property
    def doc(self) -> str:
        """What it means, in one line."""
        return str(self.field.metadata.get("doc", ""))

    @property
    def required(self) -> bool:
        """Whether the key has no default."""
        return self.field.default is MISSING and self.field.default_factory is MISSING

    @property
    def open(self) -> bool:
        """Whether the keys below it are the environment's, or whoever's, and not ours."""
        return typing.get_origin(self.hint) is dict or self.field.metadata.get("code") in (
            "one",
            "many",
        )

    @property
    def default(self) -> Any:
        """The default value, `???` when the key must be given."""
        if self.brought is not None:
            return self.brought
        if self.field.default is not MISSING:
            return self.field.default
        return REQUIRED if self.field.default_factory is MISSING else self.field.default_factory()


@dataclass(frozen=True)
class Group:
    """A part of the configuration that the command line chooses: a tagged union.

    `registry` has the dataclass of each tag, which is the option's `name` in a composed
    configuration. With `many`, several are chosen at once, each under a name of its own.
    """

    name: str
    registry: Mapping[str, type[Any]]
    many: bool = False
    listed: str = ""  # what --help says where the options are too many to list

    def tag(self, option: str, folders: Sequence[Path]) -> str | None:
        """The tag of an option: itself, or that of the option which its file is built on."""
        if len(self.registry) == 1:
            return next(iter(self.registry))
        waiting, seen = [option], set[str]()
        while waiting:
            name = waiting.pop(0)
            if name in self.registry:
                return name
            if name not in seen:
                seen.add(name)
                waiting += built_on(file_of(self.name, name, folders))
        return None

    def part(self, tag: str | None, mount: str = "") -> Part:
        """The part that a tag fills; of a tag that is unknown, every key that it could have."""
        known = tag is not None and tag in self.registry
        return Part(self, (str(tag),) if known else tuple(self.registry), mount)


@dataclass(frozen=True)
class Part:
    """A chosen option, and where its keys stand: below `algo.`, or below `logger.csv.`."""

    group: Group
    tags: tuple[str, ...]
    mount: str = ""

    @property
    def keys(self) -> list[Key]:
        """Every key of the option."""
        prefix = f"{self.group.name}.{self.mount}." if self.mount else f"{self.group.name}."
        return _unique(k for tag in self.tags for k in keys_of(self.group.registry[tag], prefix))

    @property
    def brings(self) -> dict[str, Any]:
        """Defaults outside the part that its option brings; of several options none."""
        return brings_of(self.group.registry[self.tags[0]]) if len(self.tags) == 1 else {}


@dataclass(frozen=True)
class Schema:
    """What may stand left of `=` for one command.

    `declares` is the dataclass of the whole, with a field for each group. Besides the keys there are
    groups of presets, which only set keys, and words with which the command does something else.
    `primary` is the file in conf/ whose defaults say what is chosen unless told otherwise.
    """

    name: str
    declares: type[Any]
    primary: str
    groups: tuple[Group, ...] = ()
    presets: tuple[str, ...] = ()
    choosing: tuple[str, ...] = ()  # the presets that may also choose options
    words: tuple[str, ...] = ()
    hint: str = ""  # for --help, below the groups

    def chosen(self, overrides: Iterable[str], folders: Sequence[Path] = (CONF,)) -> list[Part]:
        """What a command line chooses in each group, several options in a sweep.

        All options of a group where a preset or an expression chooses.
        """
        pairs = [o.lstrip("+").partition("=") for o in overrides if "=" in o]
        given = {key: value for key, _, value in pairs}
        unless_told = None if self._preset_chooses(given) else self._defaults()
        options: dict[str, list[str]] = {}
        found: list[Part] = []
        for group in self.groups:
            options[group.name] = named = _options(group, given, unless_told, options, folders)
            tags = {option: group.tag(option, folders) for option in named}
            known = {option: tag for option, tag in tags.items() if tag is not None}
            if group.many:
                found += [group.part(tag, option) for option, tag in known.items()]
            else:
                found += [
                    group.part(tag) for tag in dict.fromkeys(known.values() or group.registry)
                ]
        return found

    def parts_of(self, data: Mapping[str, Any]) -> list[Part]:
        """What a composed or saved configuration has chosen."""
        found: list[Part] = []
        for group in self.groups:
            node = data.get(group.name)
            if group.many:
                inner = node if isinstance(node, Mapping) else {}
                found += [group.part(_tag(value), str(name)) for name, value in inner.items()]
            else:
                found.append(group.part(_tag(node)))
        return found

    def keys(self, parts: Iterable[Part]) -> list[Key]:
        """Every key, in the order of the groups and then of the dataclass."""
        chosen = {group.name for group in self.groups}
        rest = (k for k in keys_of(self.declares, "") if k.name.split(".")[0] not in chosen)
        return _unique([*(key for part in parts for key in part.keys), *rest])

    def as_brought(self, keys: Iterable[Key], parts: Sequence[Part]) -> list[Key]:
        """The keys with the defaults that the only choice of a group brings."""
        groups = [part.group.name for part in parts]
        single = [part for part in parts if groups.count(part.group.name) == 1]
        brought = {name: value for part in single for name, value in part.brings.items()}
        return [replace(key, brought=brought.get(key.name)) for key in keys]

    def names(self, parts: Iterable[Part]) -> list[str]:
        """Everything that may stand left of `=`."""
        groups = [group.name for group in self.groups]
        return [*groups, *self.presets, *self.words, *(key.name for key in self.keys(parts))]

    def owners(self, key: str) -> list[str]:
        """The options that have a key, as they are chosen: `algo=ppo`."""
        return [
            f"{group.name}={tag}"
            for group in self.groups
            for tag in group.registry
            if key in (k.name for k in group.part(tag, tag if group.many else "").keys)
        ]

    def node(self, path: str) -> dict[str, Any] | None:
        """The defaults that the files in conf/ name `schema/<path>`; `None` where there are none.

        `<group>/<option>` has those of an option, `brings/<option>` what it says of keys elsewhere, and the
        name of the schema those of all keys outside the groups.
        """
        if path == self.name:
            own = {group.name: group.many for group in self.groups}
            rest = {key: value for key, value in node_of(self.declares).items() if key not in own}
            return {**rest, **{name: {} for name, many in own.items() if many}}
        place, _, tag = path.partition("/")
        for group in self.groups:
            if tag in group.registry and place == group.name:
                return node_of(group.registry[tag])
            if tag in group.registry and place == "brings":
                return tree_of(brings_of(group.registry[tag])) or None
        return None

    def _preset_chooses(self, given: Mapping[str, str]) -> bool:
        return any(given.get(preset, "null") != "null" for preset in self.choosing)

    def _defaults(self) -> dict[str, Any]:
        listed = read_plain(CONF / f"{self.primary}.yaml").get("defaults", [])
        return {k: v for entry in listed if isinstance(entry, dict) for k, v in entry.items()}


def keys_of(cls: type[Any], prefix: str) -> tuple[Key, ...]:
    """The keys that a dataclass declares, those of dataclasses inside it included."""
    return _keys_of(typing.cast(Any, cls), prefix)


@functools.cache
def _keys_of(cls: Any, prefix: str) -> tuple[Key, ...]:
    found: list[Key] = []
    for field in fields(cls):
        hint: Any = hints_of(cls)[field.name]
        name = f"{prefix}{field.name}"
        inner = is_dataclass(hint)
        found += _keys_of(hint, f"{name}.") if inner else (Key(name, field, hint),)
    return tuple(found)


def is_open(key: str, keys: Iterable[Key]) -> bool:
    """Whether `key` stands below one that takes any names."""
    return any(key.startswith(f"{k.name}.") for k in keys if k.open)


def _options(
    group: Group,
    given: Mapping[str, str],
    defaults: Mapping[str, Any] | None,
    before: Mapping[str, list[str]],
    folders: Sequence[Path],
) -> list[str]:
    """The options that are named for a group; those of groups before it stand for `${group}`."""
    if group.name in given:
        value: Any = given[group.name]
    elif defaults is None:
        return list(group.registry)
    else:
        value = defaults.get(group.name)
    named = [str(v) for v in value] if isinstance(value, list) else _listed(str(value or ""))
    named = [n for option in named for n in _by_choice(group, option, folders)]
    for name, options in before.items():
        named = [n.replace(f"${{{name}}}", o) for n in named for o in options]
    expression = any(mark in name for name in named for mark in "($")
    return list(group.registry) if expression else list(dict.fromkeys(named))


def _listed(value: str) -> list[str]:
    return [name for name in re.split(r"[\[\],\s]+", value) if name and name != "null"]


def _by_choice(group: Group, option: str, folders: Sequence[Path]) -> list[str]:
    """The option, or what its file is built on where another group's choice (`${group}`) says that."""
    built = built_on(file_of(group.name, option, folders))
    return [name for name in built if "${" in name] or [option]


def built_on(file: Mapping[str, Any]) -> list[str]:
    """Names of options that the file of an option refers to: its tag, then what it begins with."""
    options = [str(file["name"])] if "name" in file else []
    for entry in file.get("defaults") or ():
        if isinstance(entry, str):
            options.append(entry.split("@")[0].rsplit("/")[-1])
        elif isinstance(entry, dict):  # a folder of its own, below the group's
            within = {k.split("@")[0]: v for k, v in entry.items() if not k.startswith("/")}
            options += [f"{folder}/{option}" for folder, option in within.items()]
    return options


def _tag(node: Any) -> str | None:
    return str(node.get("name")) if isinstance(node, Mapping) else None


def node_of(cls: type[Any]) -> dict[str, Any]:
    """The defaults of a dataclass as plain data, `???` where there is none."""
    return tree_of({key.name: key.default for key in keys_of(cls, "")})


def brings_of(cls: type[Any]) -> dict[str, Any]:
    """What an algorithm's dataclass says of keys elsewhere (`AlgorithmConfig.brings`)."""
    return dict(cls.brings) if issubclass(cls, AlgorithmConfig) else {}


def tree_of(dotted: Mapping[str, Any]) -> dict[str, Any]:
    """`{"env.n_envs": 1}` as a tree of plain data."""
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
