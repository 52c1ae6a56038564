"""Loggers: `metrics.jsonl` has every row of a run; each other logger follows it at its own pace."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlox.configs import LOGGER_CONFIGS, LoggerConfig, RunConfig, to_plain
from rlox.configs.loggers import MlflowConfig
from rlox.errors import MissingExtraError, StorageError
from rlox.extras import install_command
from rlox.loggers.base import Row, Sink
from rlox.loggers.child_sink import ChildSink
from rlox.loggers.csv import CsvSink
from rlox.loggers.follow import Delivery, Follower, finish
from rlox.loggers.jsonl import METRICS, JsonLines, read_rows
from rlox.loggers.remote import hyperparameters, run_info
from rlox.loggers.tensorboard import TensorboardSink
from rlox.plugins import PluginEntry, PluginRegistry

__all__ = [
    "LOGGERS",
    "METRICS",
    "Delivery",
    "Follower",
    "JsonLines",
    "LoggerSpec",
    "Row",
    "Sink",
    "catch_up",
    "check_loggers",
    "finish",
    "hyperparameters",
    "open_loggers",
    "read_rows",
]


@dataclass(frozen=True)
class LoggerSpec:
    """How to make the sink of a logger other than jsonl; `LOGGER_CONFIGS` has its configuration.

    `sink` makes it from the logger's own configuration, the run folder and the run's configuration. It must
    be quick and leave connections to `Sink.open`. The sink that it makes imports `package`, which the extra
    of the same name installs.
    """

    sink: Callable[[Any, Path, RunConfig], Sink]
    package: str | None = None
    starts_slowly: Callable[[Any], bool] = lambda logger_config: False  # see `Follower`


_LOGGERS: dict[str, LoggerSpec] = {
    "csv": LoggerSpec(lambda logger_config, run_dir, run: CsvSink(run_dir / "metrics.csv")),
    "tensorboard": LoggerSpec(
        lambda logger_config, run_dir, run: TensorboardSink(
            run_dir / "tb", run.algo.unit, hyperparameters(run)
        ),
        package="tensorboard",
    ),
    "wandb": LoggerSpec(
        lambda logger_config, run_dir, run: _make_child_sink(
            logger_config,
            run_dir,
            run,
            to_plain(logger_config),
            os.environ.get("WANDB_BASE_URL") if logger_config.mode == "online" else None,
        ),
        package="wandb",
        starts_slowly=lambda logger_config: logger_config.mode == "offline",
    ),
    "mlflow": LoggerSpec(
        lambda logger_config, run_dir, run: _make_child_sink(
            logger_config,
            run_dir,
            run,
            {**to_plain(logger_config), "tracking_uri": logger_config.address},
            logger_config.address,
        ),
        package="mlflow",
        starts_slowly=lambda logger_config: logger_config.tracking_uri is None,
    ),
}


def _make_child_sink(
    logger_config: LoggerConfig, run_dir: Path, run: RunConfig, data: dict[str, Any], server: str | None
) -> Sink:
    """Make a sink in its own process: its package takes seconds to import, and servers may hang."""
    return ChildSink(logger_config.name, run_dir, asdict(run_info(data, run_dir, run)), server=server)


def _plugin_logger(entry: PluginEntry, plugin: Any, setting: str) -> LoggerSpec:
    """Return the spec of a plugin's logger, whose sink raises `MissingExtraError` for a missing package."""
    _ = LOGGER_CONFIGS[entry.name]  # checks the plugin

    def sink(logger_config: Any, run_dir: Path, run: RunConfig) -> Sink:
        try:
            logger_sink: Sink = plugin.sink(logger_config, run_dir, run)
        except ImportError as error:
            raise MissingExtraError(
                f"{setting}: the plugin of {entry.source} lacks a package: {error}"
            ) from error
        return logger_sink

    return LoggerSpec(sink)


LOGGERS = PluginRegistry(_LOGGERS, "logger", _plugin_logger)


def check_loggers(configs: Mapping[str, LoggerConfig]) -> None:
    """Raise `ConfigError` now if a chosen logger's package is missing, or its address is not set."""
    for name, logger_config in _selected_loggers(configs).items():
        package = LOGGERS[name].package
        spec = package is None or importlib.util.find_spec(package)
        if not spec or (spec is not True and spec.origin is None):  # only a folder of that name
            raise MissingExtraError(_install_message(name))
        if isinstance(logger_config, MlflowConfig):
            _ = logger_config.address  # raises if it is not set


def open_loggers(run_dir: Path, config: RunConfig) -> list[Follower]:
    """Return followers of the chosen loggers besides jsonl, at their stored positions, not started."""
    check_loggers(config.logger)
    followers: list[Follower] = []
    for name, logger_config in _selected_loggers(config.logger).items():
        try:
            sink = LOGGERS[name].sink(logger_config, run_dir, config)
        except ImportError as error:  # installed, but too old or broken
            if LOGGERS[name].package is None:
                raise
            raise MissingExtraError(f"{_install_message(name)} ({error})") from error
        starts_slowly = LOGGERS[name].starts_slowly(logger_config)
        followers.append(Follower(name, sink, run_dir, starts_slowly))
    return followers


def catch_up(run_dir: Path, config: RunConfig, timeout: float = 60.0) -> dict[str, Delivery]:
    """Send the loggers of an ended run the rows that they lack; return the delivery of each by name.

    `config` is the run's own. After `timeout` seconds the remaining rows are left for another call, with a
    warning. Raises `StorageError` if `run_dir` has no `metrics.jsonl`. No other process may be writing to the
    folder.
    """
    if not (run_dir / METRICS).is_file():
        raise StorageError(f"{run_dir} has no {METRICS}; name the folder of a run")
    followers = open_loggers(run_dir, config)
    for follower in followers:
        follower.start()
    return finish(followers, timeout)


def _selected_loggers(configs: Mapping[str, LoggerConfig]) -> dict[str, LoggerConfig]:
    """Return the configurations of the chosen loggers besides jsonl, by name; each has one destination."""
    return {
        logger_config.name: logger_config
        for logger_config in configs.values()
        if logger_config.name in LOGGERS
    }


def _install_message(name: str) -> str:
    package = LOGGERS[name].package or name
    return f"logger={name} needs {package}: {install_command(package)}"
