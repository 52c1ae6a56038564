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
    config_class = _require_named_dataclass(entry, plugin.config, setting)
    if not issubclass(config_class, AlgorithmConfig):
        raise entry.kind_error(setting, "config=a dataclass derived from rlox.configs.base.AlgorithmConfig")
    if not config_class.buffers or not set(config_class.buffers) <= set(BUFFER_CONFIGS):
        raise entry.kind_error(setting, f"buffers of its configuration among {', '.join(BUFFER_CONFIGS)}")
    return config_class


def logger_config(entry: PluginEntry, plugin: Any, setting: str) -> Any:
    """Return the configuration class of a logger plugin; raise `ConfigError` if it is invalid."""
    if not isinstance(plugin, LoggerPlugin):
        raise entry.kind_error(setting, "a rlox.plugins.LoggerPlugin")
    return _require_named_dataclass(entry, plugin.config, setting)


def _require_named_dataclass(entry: PluginEntry, config_class: Any, setting: str) -> type[Any]:
    """Require a frozen dataclass with the plugin's name, by which a saved configuration finds it."""
    is_frozen_dataclass = (
        isinstance(config_class, type)
        and is_dataclass(config_class)
        and cast(Any, config_class).__dataclass_params__.frozen
    )
    name = {f.name: f for f in fields(config_class)}.get("name") if is_frozen_dataclass else None
    if name is None or (name.default, name.metadata.get("choices")) != (entry.name, (entry.name,)):
        raise entry.kind_error(
            setting,
            "config=a frozen dataclass with the field "
            f'name: str = param("{entry.name}", "...", choices=("{entry.name}",))',
        )
    return cast(type[Any], config_class)
