"""The classes of all algorithms by name, those of plugins too."""

from __future__ import annotations

import importlib
from collections.abc import ItemsView, ValuesView
from typing import Any

from rlox.configs import ALGO_CONFIGS
from rlox.configs.builtin_algorithms import BUILTIN_ALGORITHMS
from rlox.plugins import PluginEntry, PluginRegistry
from rlox.runs.algorithm import Algorithm

__all__ = ["ALGORITHMS"]


def _plugin_class(entry: PluginEntry, plugin: Any, setting: str) -> type[Algorithm]:
    """Return the class of a plugin; raise `ConfigError` if it is no `Algorithm` of the plugin's name."""
    _ = ALGO_CONFIGS[entry.name]  # the look-up checks the plugin
    cls = entry.load(setting, plugin.facade)
    if not (isinstance(cls, type) and issubclass(cls, Algorithm) and cls.name == entry.name):
        raise entry.kind_error(
            setting,
            'facade="module:Class" of a subclass of rlox.runs.algorithm.Algorithm with name = '
            f'"{entry.name}"',
        )
    return cls


class _AlgorithmRegistry(PluginRegistry[type[Algorithm]]):
    """The façade classes by name; a look-up imports one class, `values()` and `items()` import all."""

    def __init__(self) -> None:
        super().__init__({}, "algo", _plugin_class)
        self.builtin_names = frozenset(BUILTIN_ALGORITHMS)
        self.update(dict.fromkeys(BUILTIN_ALGORITHMS))

    def __getitem__(self, name: str) -> type[Algorithm]:
        cls = super().__getitem__(name)
        if cls is None:
            module, _, class_name = BUILTIN_ALGORITHMS[name].facade.partition(":")
            self[name] = cls = getattr(importlib.import_module(module), class_name)
        return cls

    def values(self) -> ValuesView[type[Algorithm]]:  # type: ignore[override]
        """Import and return all classes."""
        return self._load_all().values()

    def items(self) -> ItemsView[str, type[Algorithm]]:  # type: ignore[override]
        """Import all classes and return the pairs of name and class."""
        return self._load_all().items()

    def _load_all(self) -> dict[str, type[Algorithm]]:
        return {name: self[name] for name in self}

    def __repr__(self) -> str:
        return repr(self._load_all())


ALGORITHMS = _AlgorithmRegistry()
