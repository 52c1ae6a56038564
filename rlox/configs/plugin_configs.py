"""Checks of the configuration classes that plugins provide."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, cast

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BUFFER_CONFIGS
from rlox.plugins import AlgorithmPlugin, LoggerPlugin, PluginEntry

__all__ = ["algorithm_config", "logger_config"]


def algorithm_config(entry: PluginEntry, plugin: Any, setting: str) -> Any:
    """Return the configuration class of an algorithm plugin; raise `ConfigError` if it is invalid."""
    if not isinstance(plugin, AlgorithmPlugin):
        raise entry.kind_error(setting, "a rlox.plugins.AlgorithmPlugin")
    kind = _require_named_dataclass(entry, plugin.config, setting)
    if not issubclass(kind, AlgorithmConfig):
        raise entry.kind_error(setting, "config=a dataclass derived from rlox.configs.base.AlgorithmConfig")
    if not kind.buffers or not set(kind.buffers) <= set(BUFFER_CONFIGS):
        raise entry.kind_error(setting, f"buffers of its configuration among {', '.join(BUFFER_CONFIGS)}")
    return kind


def logger_config(entry: PluginEntry, plugin: Any, setting: str) -> Any:
    """Return the configuration class of a logger plugin; raise `ConfigError` if it is invalid."""
    if not isinstance(plugin, LoggerPlugin):
        raise entry.kind_error(setting, "a rlox.plugins.LoggerPlugin")
    return _require_named_dataclass(entry, plugin.config, setting)


def _require_named_dataclass(entry: PluginEntry, kind: Any, setting: str) -> type[Any]:
    """Require a frozen dataclass with the plugin's name, by which a saved configuration finds it."""
    frozen = isinstance(kind, type) and is_dataclass(kind) and cast(Any, kind).__dataclass_params__.frozen
    name = {f.name: f for f in fields(kind)}.get("name") if frozen else None
    if name is None or (name.default, name.metadata.get("choices")) != (entry.name, (entry.name,)):
        raise entry.kind_error(
            setting,
            "config=a frozen dataclass with the field "
            f'name: str = param("{entry.name}", "...", choices=("{entry.name}",))',
        )
    return cast(type[Any], kind)
