"""TensorBoard event files."""

from __future__ import annotations

from pathlib import Path

from rlox.errors import MissingExtraError
from rlox.loggers.base import Row

__all__ = ["TensorboardSink"]


class TensorboardSink:
    """Scalars under `tb/`, one tag a metric, at the row's `unit`.

    `purge` hides what an earlier session wrote after that step.
    """

    def __init__(self, folder: Path, purge: int = 0, unit: str = "env_steps") -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise MissingExtraError(
                "logger=tensorboard needs tensorboard: pip install 'rlox[tensorboard]'"
            ) from error
        self._unit = unit
        self._writer = SummaryWriter(str(folder), purge_step=purge + 1 if purge else None)

    def write(self, row: Row) -> None:
        """Add the row's scalars."""
        step = int(row[self._unit] or 0)
        for name, value in row.items():
            if value is not None and name != self._unit:
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()
