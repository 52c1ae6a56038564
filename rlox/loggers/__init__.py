"""Loggers: `metrics.jsonl` is the truth; the others are fed from a spool."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from rlox.configs import LoggerConfig
from rlox.errors import MissingExtraError
from rlox.loggers.base import Row, Sink, Spool
from rlox.loggers.files import CsvSink, JsonLines, read_rows
from rlox.loggers.tensorboard import TensorboardSink

__all__ = ["JsonLines", "Row", "Sink", "Spool", "check_loggers", "open_loggers", "read_rows"]


def check_loggers(configs: Mapping[str, LoggerConfig]) -> None:
    """Raise `MissingExtraError` now if a chosen logger's package is not installed."""
    wanted = {config.name for config in configs.values()}
    if "tensorboard" in wanted and importlib.util.find_spec("tensorboard") is None:
        raise MissingExtraError(
            "logger=tensorboard needs tensorboard: pip install 'rlox[tensorboard]'"
        )


def open_loggers(
    configs: Mapping[str, LoggerConfig], folder: Path, step: int = 0, unit: str = "env_steps"
) -> list[Spool]:
    """The chosen loggers besides jsonl, each behind its spool, going on after `step` of the unit."""
    check_loggers(configs)
    spools: list[Spool] = []
    for config in configs.values():
        if config.name == "csv":
            spools.append(
                Spool(CsvSink(folder / "metrics.csv", read_rows(folder / "metrics.jsonl")), "csv")
            )
        elif config.name == "tensorboard":
            spools.append(Spool(TensorboardSink(folder / "tb", step, unit), "tensorboard"))
    return spools
