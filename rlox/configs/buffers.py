"""Configurations of buffers, which store experience between acting and learning, and their registry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rlox.configs.params import param
from rlox.errors import ConfigError
from rlox.plugins import BufferPlugin, PluginEntry, PluginRegistry

DEFAULT_CAPACITY = 1_000_000  # transitions; also the default of SB3, and in the papers of DQN and SAC
MAX_CAPACITY = (1 << 30) - 1
HINDSIGHT_K = 4

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]i?B|B)?")
_UNITS = {"": 1, "B": 1} | {
    prefix + end: base**power
    for power, prefix in enumerate("kMGT", 1)
    for end, base in (("B", 1000), ("iB", 1024))
}


@dataclass(frozen=True)
class BufferConfig:
    """The interface of every buffer configuration."""

    name: str = param(doc="the buffer")

    @property
    def has_schedule(self) -> bool:
        """Whether a value depends on the fraction of the run that is over."""
        return False

    def check(self) -> None:
        """Raise `ConfigError` for fields that contradict each other."""


@dataclass(frozen=True)
class RolloutBufferConfig(BufferConfig):
    """One rollout of the learner's own policy, used once."""

    name: str = param("rollout", "the buffer", choices=("rollout",))


@dataclass(frozen=True)
class ReplayConfig(BufferConfig):
    """Transitions that are drawn repeatedly; the oldest are overwritten first."""

    capacity: int | None = param(
        None,
        "transitions held for all environments together, rounded down to a multiple of env.n_envs; null: "
        f"{DEFAULT_CAPACITY:,}, or what buffer.memory holds",
        within=f"[1, {MAX_CAPACITY}]",
        source="SB3",
        argument="buffer_size",
    )
    memory: str | None = param(
        None,
        "memory for transitions in bytes, in place of capacity, e.g. 512MiB, 8GB or 4e9",
        instead_of="capacity",
    )

    @property
    def rows(self) -> int | None:
        """The capacity in transitions; `None` if `memory` determines it."""
        return self.capacity or (None if self.memory else DEFAULT_CAPACITY)

    @property
    def memory_bytes(self) -> int | None:
        """`memory` in bytes."""
        return None if self.memory is None else parse_size(self.memory, "buffer.memory")

    def check(self) -> None:
        """Raise `ConfigError` if the size is given twice."""
        if self.capacity is not None and self.memory_bytes is not None:
            raise ConfigError(
                f"buffer.capacity={self.capacity} and buffer.memory={self.memory}: give one of them"
            )


@dataclass(frozen=True)
class AutoBufferConfig(ReplayConfig):
    """Stands for the algorithm's default buffer, which replaces it."""

    name: str = param("auto", "the buffer", choices=("auto",))


@dataclass(frozen=True)
class UniformConfig(ReplayConfig):
    """Every transition is drawn with the same probability."""

    name: str = param("uniform", "the buffer", choices=("uniform",))
    hindsight: str | None = param(
        None,
        "replace the goals of drawn transitions by goals reached in the same episode. future: at a later "
        "step; final: at the last step; episode: at any step",
        choices=("future", "final", "episode"),
        source="Andrychowicz et al. 2017",
    )
    hindsight_k: int = param(
        HINDSIGHT_K,
        "number of transitions with a replaced goal for each transition with its own goal",
        within="[1, 1024]",
        source="Andrychowicz et al. 2017",
    )

    def check(self) -> None:
        """Raise `ConfigError` for hindsight settings without hindsight."""
        super().check()
        if self.hindsight is None and self.hindsight_k != HINDSIGHT_K:
            raise ConfigError(
                f"buffer.hindsight_k={self.hindsight_k} without buffer.hindsight: no transition is given "
                "another goal; set buffer.hindsight=future, or leave buffer.hindsight_k out"
            )


@dataclass(frozen=True)
class PrioritizedConfig(ReplayConfig):
    """Transitions with larger TD errors are drawn more often (Schaul et al. 2016, table 3)."""

    name: str = param("prioritized", "the buffer", choices=("prioritized",))
    alpha: float = param(
        0.6, "priority exponent; 0: uniform", within="[0, 1]", source="Schaul et al. 2016, table 3"
    )
    beta: float = param(
        0.4,
        "exponent of the importance weights at the start",
        within="[0, 1]",
        source="Schaul et al. 2016, table 3",
    )
    beta_final: float = param(
        1.0, "exponent of the importance weights at the end, reached linearly", within="[0, 1]"
    )
    priority_eps: float = param(
        1e-6, "constant added to every absolute error", within="(0, inf)", source="OpenAI Baselines"
    )

    @property
    def has_schedule(self) -> bool:
        """Whether beta changes."""
        return self.beta != self.beta_final


@dataclass(frozen=True)
class OfflineConfig(BufferConfig):
    """A fixed dataset from a folder."""

    name: str = param("offline", "the buffer", choices=("offline",))
    path: str | None = param(
        None, "folder with dataset.safetensors and dataset.json", verbatim=True, argument="buffer_path"
    )
    memory: str | None = param(
        None,
        "memory for rows in bytes, e.g. 512MiB, 8GB or 4e9; a larger dataset is read from its file as "
        "rows are drawn, with the same results; null: a quarter of the available memory",
    )

    @property
    def memory_bytes(self) -> int | None:
        """`memory` in bytes."""
        return None if self.memory is None else parse_size(self.memory, "buffer.memory")

    def check(self) -> None:
        """Raise `ConfigError` if `memory` is not a size."""
        parse_size(self.memory or "1", "buffer.memory")


# rlox's own buffers: one entry for each, of the type of plugins. Options, lists and exports follow from it.
BUILTIN_BUFFERS = {
    plugin.config.name: plugin
    for plugin in (
        BufferPlugin(AutoBufferConfig),
        BufferPlugin(RolloutBufferConfig),
        BufferPlugin(UniformConfig, "rlox.sources.sampling:UniformSampling"),
        BufferPlugin(PrioritizedConfig, "rlox.sources.sampling:PrioritizedSampling"),
        BufferPlugin(OfflineConfig),
    )
}


def _plugin_config(entry: PluginEntry, plugin: Any, setting: str) -> type[BufferConfig]:
    """Return the configuration class of a buffer plugin; raise `ConfigError` if it is invalid."""
    if not isinstance(plugin, BufferPlugin):
        raise entry.kind_error(setting, "a rlox.plugins.BufferPlugin")
    config_class = entry.require_named_dataclass(plugin.config, setting)
    if not issubclass(config_class, BufferConfig):
        raise entry.kind_error(setting, "config=a dataclass derived from rlox.configs.BufferConfig")
    if issubclass(config_class, ReplayConfig) and plugin.sampling is None:
        raise entry.kind_error(setting, 'sampling="module:Class", because its config is a ReplayConfig')
    return config_class


BUFFER_CONFIGS: PluginRegistry[type[BufferConfig]] = PluginRegistry(
    {name: plugin.config for name, plugin in BUILTIN_BUFFERS.items()}, "buffer", _plugin_config
)


def parse_size(text: str, key: str) -> int:
    """Convert a size such as `"512MiB"` to bytes; a plain number is bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is not None and float(match[1]) > 0:
        unit = (match[2] or "").replace("K", "k")
        return int(float(match[1]) * _UNITS[unit])
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 1 <= number < float("inf"):
        raise ConfigError(f"{key}={text}: expected a size such as 512MiB, 8GB or a number of bytes")
    return int(number)
