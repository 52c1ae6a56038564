"""Plugins: what installed packages add to rlox by entry points of the group `rlox.plugins` (docs/plugins.md).

An entry point is named `<kind>.<name>`, e.g. `algo.vpg`. The list of plugins comes from the metadata of
installed packages; a plugin is imported only when its name is used. A plugin cannot replace a name of
rlox's own. If two plugins have the same name, neither is used.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rlox.errors import ConfigError, RloxError, describe_error

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "GROUP",
    "KINDS",
    "AlgorithmPlugin",
    "BufferPlugin",
    "LoggerPlugin",
    "PluginEntry",
    "PluginRegistry",
    "conf_folders",
    "find_entry",
    "loaded_plugin_versions",
    "plugin_entries",
    "plugin_names",
]

GROUP = "rlox.plugins"
KINDS = ("algo", "buffer", "env", "wrapper", "logger", "conf")
T = TypeVar("T")


@dataclass(frozen=True)
class AlgorithmPlugin:
    """The value of an entry point `algo.<name>`.

    `config` is a frozen dataclass that derives from `AlgorithmConfig`; its `name` is that of the entry point.
    `facade` names its subclass of `Algorithm` as `module:Name`. That class is imported when a run is built,
    so that help and configuration checks do not import torch.
    """

    config: type[Any]
    facade: str


@dataclass(frozen=True)
class BufferPlugin:
    """The value of an entry point `buffer.<name>`.

    `config` is a frozen dataclass that derives from `BufferConfig`; its `name` is that of the entry point. If
    it derives from `ReplayConfig`, `sampling` names its subclass of `UniformSampling` as `module:Name`. That
    class is imported when a run is built.
    """

    config: type[Any]
    sampling: str | None = None


@dataclass(frozen=True)
class LoggerPlugin:
    """The value of an entry point `logger.<name>`.

    `config` is a frozen dataclass whose `name` is that of the entry point. `sink` is called with an instance
    of it, the run folder and the run's configuration, and returns a `Sink`. It must return quickly and leave
    connections to `Sink.open`.
    """

    config: type[Any]
    sink: Callable[[Any, Path, Any], Any]


@dataclass(frozen=True)
class PluginEntry:
    """One entry point and the distribution that provides it."""

    kind: str
    name: str
    entry_point: EntryPoint
    distribution: str
    version: str
    summary: str

    @property
    def source(self) -> str:
        """Name and version of the distribution."""
        return f"{self.distribution} {self.version}"

    def load(self, setting: str, value: str | None = None) -> Any:
        """Import the plugin, or the object `value`, a `module:Name`. `setting` is the setting that named it.

        Raises `ConfigError` with the distribution and the error if the import fails.
        """
        from importlib.metadata import EntryPoint  # imported here because most runs use no plugin

        try:
            return EntryPoint(self.entry_point.name, value or self.entry_point.value, GROUP).load()
        except (Exception, SystemExit) as error:
            detail = str(error) if isinstance(error, RloxError) else describe_error(error)
            raise ConfigError(
                f"{setting}: the plugin of {self.source} fails when it is imported: {detail}"
            ) from error

    def require_named_dataclass(self, config_class: Any, setting: str) -> type[Any]:
        """Require a frozen dataclass with the plugin's name, by which a saved configuration finds it."""
        is_frozen_dataclass = (
            isinstance(config_class, type)
            and is_dataclass(config_class)
            and cast(Any, config_class).__dataclass_params__.frozen
        )
        name = {f.name: f for f in fields(config_class)}.get("name") if is_frozen_dataclass else None
        if name is None or (name.default, name.metadata.get("choices")) != (self.name, (self.name,)):
            raise self.kind_error(
                setting,
                "config=a frozen dataclass with the field "
                f'name: str = param("{self.name}", "...", choices=("{self.name}",))',
            )
        return cast(type[Any], config_class)

    def kind_error(self, setting: str, expected: str) -> ConfigError:
        """Return the error for a plugin that is not of the type that its kind requires."""
        return ConfigError(
            f"{setting}: {self.entry_point.value} of {self.source} is no plugin of this kind; expected "
            f"{expected}"
        )


@cache
def plugin_entries() -> tuple[PluginEntry, ...]:
    """Return every entry point of the group, sorted by kind and name; import nothing.

    Packages in the current folder do not count as installed: the folder may be anybody's.
    """
    from importlib.metadata import distributions

    entries: list[PluginEntry] = []
    seen_names: set[str] = set()
    for distribution in distributions(path=_search_path()):
        entry_points = distribution.entry_points.select(group=GROUP)
        if not entry_points:  # the names of distributions without plugins, often hundreds, are not read
            continue
        name, summary = distribution.name, distribution.metadata.json.get("summary", "")
        normalized_name = re.sub("[-_.]+", "-", name).lower()
        if normalized_name not in seen_names:  # the first one on the path is the one that gets imported
            seen_names.add(normalized_name)
            metadata = (name, distribution.version, str(summary))
            entries += [PluginEntry(*_kind_and_name(point), point, *metadata) for point in entry_points]
    return tuple(sorted(entries, key=lambda o: (o.kind, o.name, o.distribution)))


def plugin_names(kind: str) -> list[str]:
    """Return the names of the plugins of a kind."""
    return sorted({entry.name for entry in plugin_entries() if entry.kind == kind})


def find_entry(kind: str, name: str, setting: str) -> PluginEntry | None:
    """Return the plugin of a kind and name, or `None`; raise `ConfigError` if several packages provide it.

    `setting` is the setting that names it.
    """
    entries = [entry for entry in plugin_entries() if (entry.kind, entry.name) == (kind, name)]
    if len(entries) > 1:
        raise ConfigError(
            f"{setting}: {' and '.join(o.source for o in entries)} both offer a plugin of this name, so "
            f"neither is used; uninstall one of them: pip uninstall {entries[0].distribution}"
        )
    return entries[0] if entries else None


def loaded_plugin_versions() -> dict[str, str]:
    """Return the versions of the distributions whose plugins this process has imported."""
    return {
        entry.distribution: entry.version
        for entry in plugin_entries()
        if entry.entry_point.module in sys.modules
    }


def conf_folders() -> list[tuple[PluginEntry, Path]]:
    """Return the conf folders of plugins; nothing of theirs is imported."""
    candidates = ((entry, _conf_folder(entry)) for entry in plugin_entries() if entry.kind == "conf")
    return [(entry, path) for entry, path in candidates if path is not None and path.is_dir()]


class PluginRegistry(dict[str, T]):
    """A registry of rlox's own entries and of plugins; a plugin is imported when it is looked up.

    Iteration covers rlox's own entries and plugins that were looked up before.
    """

    def __init__(
        self, builtin: dict[str, T], kind: str, convert: Callable[[PluginEntry, Any, str], T]
    ) -> None:
        super().__init__(builtin)
        self.builtin_names = frozenset(builtin)
        self.kind = kind
        self._convert = convert  # converts a loaded plugin to this registry's entry, or raises ConfigError

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and name in plugin_names(self.kind))

    def __missing__(self, name: str) -> T:
        setting = f"{self.kind}={name}"
        entry = find_entry(self.kind, name, setting)
        if entry is None:
            raise KeyError(name)
        self[name] = item = self._convert(entry, entry.load(setting), setting)
        return item

    def get(self, name: Any, default: Any = None) -> Any:
        """Like `dict.get`, plugins included."""
        try:
            return self[name]
        except KeyError:
            return default


def _search_path() -> list[str]:
    working_dir = os.path.realpath(os.curdir)
    return [entry for entry in sys.path if entry and os.path.realpath(entry) != working_dir]


def _kind_and_name(entry_point: EntryPoint) -> tuple[str, str]:
    kind, _, name = entry_point.name.partition(".")
    return kind, name


def _conf_folder(entry: PluginEntry) -> Path | None:
    package, *subfolders = entry.entry_point.value.split(".")
    spec = importlib.util.find_spec(package)  # a top-level name: find_spec imports nothing
    locations = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(locations[0], *subfolders) if locations else None
