"""Loggers: `metrics.jsonl` is the truth about a run; each of the others follows it in its own time."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rlox.configs import LOGGER_CONFIGS, LoggerConfig, RunConfig, plain
from rlox.configs.loggers import MlflowConfig
from rlox.errors import MissingExtraError, StorageError
from rlox.extras import install
from rlox.loggers.base import Row, Sink
from rlox.loggers.child import ChildSink
from rlox.loggers.csv import CsvSink
from rlox.loggers.follow import Delivery, Follower, finish
from rlox.loggers.jsonl import METRICS, JsonLines, read_rows
from rlox.loggers.remote import hyperparameters, told
from rlox.loggers.tensorboard import TensorboardSink
from rlox.plugins import Offer, Plugged

__all__ = [
    "LOGGERS",
    "METRICS",
    "Delivery",
    "Follower",
    "JsonLines",
    "Logger",
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
class Logger:
    """How the sink of a logger besides jsonl is made; `LOGGER_CONFIGS` has its configuration.

    `sink` gets the logger's own configuration, the run folder and the run's configuration; it must be
    quick and leave connections to `Sink.open`. `package` is imported by the sink, and names the extra
    that installs it.
    """

    sink: Callable[[Any, Path, RunConfig], Sink]
    package: str | None = None
    starts_slowly: Callable[[Any], bool] = lambda own: False  # as `Follower` has it


_LOGGERS: dict[str, Logger] = {
    "csv": Logger(lambda own, folder, run: CsvSink(folder / "metrics.csv")),
    "tensorboard": Logger(
        lambda own, folder, run: TensorboardSink(
            folder / "tb", run.algo.unit, hyperparameters(run)
        ),
        package="tensorboard",
    ),
    "wandb": Logger(
        lambda own, folder, run: _elsewhere(
            own,
            folder,
            run,
            plain(own),
            os.environ.get("WANDB_BASE_URL") if own.mode == "online" else None,
        ),
        package="wandb",
        starts_slowly=lambda own: own.mode == "offline",
    ),
    "mlflow": Logger(
        lambda own, folder, run: _elsewhere(
            own, folder, run, {**plain(own), "tracking_uri": own.address}, own.address
        ),
        package="mlflow",
        starts_slowly=lambda own: own.tracking_uri is None,
    ),
}


def _elsewhere(
    own: LoggerConfig, folder: Path, run: RunConfig, data: dict[str, Any], server: str | None
) -> Sink:
    """A sink in a process of its own: its package takes seconds to import, and servers hang."""
    return ChildSink(own.name, folder, asdict(told(data, folder, run)), server=server)


def _logger(offer: Offer, plugin: Any, told: str) -> Logger:
    """What makes the sink of a plugin's logger; `MissingExtraError` where that lacks a package."""
    _ = LOGGER_CONFIGS[offer.name]  # which checks what the plugin is

    def sink(own: Any, folder: Path, run: RunConfig) -> Sink:
        try:
            made: Sink = plugin.sink(own, folder, run)
        except ImportError as error:
            raise MissingExtraError(
                f"{told}: the plugin of {offer.source} lacks something: {error}"
            ) from error
        return made

    return Logger(sink)


LOGGERS = Plugged(_LOGGERS, "logger", _logger)


def check_loggers(configs: Mapping[str, LoggerConfig]) -> None:
    """Raise `ConfigError` now if a chosen logger's package is not installed, or its address not known."""
    for name, own in _chosen(configs).items():
        package = LOGGERS[name].package
        found = package is None or importlib.util.find_spec(package)
        if not found or (found is not True and found.origin is None):  # a folder of that name
            raise MissingExtraError(_needs(name))
        if isinstance(own, MlflowConfig):
            _ = own.address  # somebody has to say it


def open_loggers(folder: Path, config: RunConfig) -> list[Follower]:
    """The chosen loggers besides jsonl, where they stopped in `folder`; not started yet."""
    check_loggers(config.logger)
    followers: list[Follower] = []
    for name, own in _chosen(config.logger).items():
        try:
            sink = LOGGERS[name].sink(own, folder, config)
        except ImportError as error:  # installed, but too old or in pieces
            if LOGGERS[name].package is None:
                raise
            raise MissingExtraError(f"{_needs(name)} ({error})") from error
        slow = LOGGERS[name].starts_slowly(own)
        followers.append(Follower(name, sink, folder, slow))
    return followers


def catch_up(folder: Path, config: RunConfig, timeout: float = 60.0) -> dict[str, Delivery]:
    """Hand the loggers of a run that has ended the rows that they lack; by name, what came of it.

    `config` is the run's own; `timeout` the seconds after which what is left stays for another time,
    with a warning. `StorageError` if `folder` has no `metrics.jsonl`. No other process may be writing
    to the folder.
    """
    if not (folder / METRICS).is_file():
        raise StorageError(f"{folder} has no {METRICS}; name the folder of a run")
    followers = open_loggers(folder, config)
    for follower in followers:
        follower.start()
    return finish(followers, timeout)


def _chosen(configs: Mapping[str, LoggerConfig]) -> dict[str, LoggerConfig]:
    """The configurations of loggers that follow, by name: one each, as each has one place."""
    return {own.name: own for own in configs.values() if own.name in LOGGERS}


def _needs(name: str) -> str:
    package = LOGGERS[name].package or name
    return f"logger={name} needs {package}: {install(package)}"
