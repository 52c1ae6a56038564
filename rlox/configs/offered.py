"""Configurations that plugins bring: what one has to be for the rest of the house to read it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, cast

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BUFFER_CONFIGS
from rlox.plugins import AlgorithmPlugin, LoggerPlugin, Offer

__all__ = ["algorithm_config", "logger_config"]


def algorithm_config(offer: Offer, plugin: Any, told: str) -> Any:
    """The configuration class of an algorithm; `ConfigError` for what is none."""
    if not isinstance(plugin, AlgorithmPlugin):
        raise offer.wrong(told, "a rlox.plugins.AlgorithmPlugin")
    kind = _named(offer, plugin.config, told)
    if not issubclass(kind, AlgorithmConfig):
        raise offer.wrong(told, "config=a dataclass over rlox.configs.base.AlgorithmConfig")
    if not kind.buffers or not set(kind.buffers) <= set(BUFFER_CONFIGS):
        raise offer.wrong(told, f"buffers of its configuration among {', '.join(BUFFER_CONFIGS)}")
    return kind


def logger_config(offer: Offer, plugin: Any, told: str) -> Any:
    """The configuration class of a logger; `ConfigError` for what is none."""
    if not isinstance(plugin, LoggerPlugin):
        raise offer.wrong(told, "a rlox.plugins.LoggerPlugin")
    return _named(offer, plugin.config, told)


def _named(offer: Offer, kind: Any, told: str) -> type[Any]:
    """A frozen dataclass whose name is the plugin's: by it a saved configuration finds it again."""
    frozen = (
        isinstance(kind, type)
        and is_dataclass(kind)
        and cast(Any, kind).__dataclass_params__.frozen
    )
    name = {f.name: f for f in fields(kind)}.get("name") if frozen else None
    if name is None or (name.default, name.metadata.get("choices")) != (offer.name, (offer.name,)):
        raise offer.wrong(
            told,
            "config=a frozen dataclass with the field "
            f'name: str = param("{offer.name}", "...", choices=("{offer.name}",))',
        )
    return cast(type[Any], kind)
