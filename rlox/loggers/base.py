"""The logger interface: a `Sink` writes rows and can take rows back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Row", "RunInfo", "Sink", "SinkBrokenError"]

# One line of metrics: `env_steps`, `updates`, `seconds` and slash names such as `loss/policy`. A non-finite
# number is None, as in `metrics.jsonl`.
Row = Mapping[str, float | int | None]


@dataclass(frozen=True)
class RunInfo:
    """The facts of a run for a sink in another process: plain data, without values named like secrets."""

    logger_config: Mapping[str, Any]  # the logger's own configuration, with addresses
    config: Mapping[str, Any]  # of the run
    hyperparameters: Mapping[str, Any]
    unit: str  # the counter that is the x-axis of rows
    name: str
    tags: Sequence[str]


class SinkBrokenError(Exception):
    """A failure after which the sink's process is unusable: the next `open` needs a new process."""


class Sink(Protocol):
    """Receives rows of `metrics.jsonl`; one thread uses it, and it may be slow and may fail.

    Any method may raise: the rows of a failed `write` are written again after another `open`. `finish`,
    `close` and `abandon` do nothing unless a subclass overrides them.
    """

    def open(self, rows: int) -> int:
        """Start or restart: keep the first `rows` rows of the run and remove later ones.

        Returns how many rows are kept: fewer than `rows` if some were lost, which are written again. Later
        rows exist after a run resumed from a checkpoint, after a failed `write`, or after a kill before the
        position was stored. A sink that cannot remove rows returns `rows`, has such rows twice, and documents
        that.
        """

    def write(self, rows: Sequence[Row]) -> None:
        """Write the next rows, in order; they are stored safely when this returns."""

    def finish(self) -> None:
        """Finish once the run has ended and all rows are written; return when everything is stored.

        Everything includes the result, plots and videos. `finish` is called again, after another `open`, if
        it failed, and whenever a later check looks for missing data.
        """

    def close(self) -> None:
        """Release files and connections."""

    def abandon(self) -> None:
        """Cut short the call that another thread is making; nothing waits for it any longer."""
