"""Frozen, torch-free dataclasses for algorithms, environments, buffers and loggers: the only defaults.

The dataclasses of algorithms and buffers are those of `BUILTIN_ALGORITHMS` and `BUILTIN_BUFFERS`.
`__init__.pyi` lists them for type checkers; `python tests/helpers/package_stubs.py` writes it.
"""

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import (
    BUFFER_CONFIGS,
    BUILTIN_BUFFERS,
    BufferConfig,
    ReplayConfig,
)
from rlox.configs.builtin_algorithms import BUILTIN_ALGORITHMS
from rlox.configs.check import dotted_items, make, make_run, require_device, to_plain, upgrade_saved_config
from rlox.configs.env import EnvConfig
from rlox.configs.loggers import LOGGER_CONFIGS, LoggerConfig
from rlox.configs.name_suggestions import nearest
from rlox.configs.params import param
from rlox.configs.run import ALGO_CONFIGS, CheckpointConfig, EvalConfig, LogConfig, RunConfig, StopConfig
from rlox.configs.schedules import Schedule, schedule

_CLASSES = {
    plugin.config.__name__: plugin.config
    for plugin in (*BUILTIN_ALGORITHMS.values(), *BUILTIN_BUFFERS.values())
}
globals().update(_CLASSES)

__all__ = [
    "ALGO_CONFIGS",
    "AlgorithmConfig",
    "BUFFER_CONFIGS",
    "BufferConfig",
    "CheckpointConfig",
    "EnvConfig",
    "EvalConfig",
    "LOGGER_CONFIGS",
    "LogConfig",
    "LoggerConfig",
    "ReplayConfig",
    "RunConfig",
    "Schedule",
    "StopConfig",
    "dotted_items",
    "make",
    "make_run",
    "nearest",
    "param",
    "require_device",
    "schedule",
    "to_plain",
    "upgrade_saved_config",
    *_CLASSES,
]
