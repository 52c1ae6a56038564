"""What a logger is: `Sink`, which takes rows and takes rows back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Row", "RunInfo", "Sink", "SinkBrokenError"]

# One line of metrics: `env_steps`, `updates`, `seconds` and slash names such as `loss/policy`. A number
# that was not finite is None, as in `metrics.jsonl`.
Row = Mapping[str, float | int | None]


@dataclass(frozen=True)
class RunInfo:
    """What a sink in another process knows of its run: plain data, without values named like secrets."""

    logger_config: Mapping[str, Any]  # the logger's own configuration, with addresses
    config: Mapping[str, Any]  # the run's
    hyperparameters: Mapping[str, Any]
    unit: str  # the name of the number that rows are counted by
    name: str
    tags: Sequence[str]


class SinkBrokenError(Exception):
    """A sink that failed and whose process is good for nothing any more: the next `open` needs a new one."""


class Sink(Protocol):
    """Where rows of `metrics.jsonl` go; used by one thread, which may be slow and may fail.

    Any method may raise: the rows of a failed `write` come again, after another `open`. A class over this one
    has `finish`, `close` and `abandon` that do nothing.
    """

    def open(self, rows: int) -> int:
        """Begin, or begin again: keep the first `rows` rows of the run, take back what is beyond.

        Returns how many it holds: fewer than `rows` where some were lost, which then come again. Rows
        beyond are those of a run that went on from a checkpoint, and those of a `write` that failed, or
        that a kill kept from being noted. A sink that cannot take rows back returns `rows`, has such
        rows twice, and says so in its documentation.
        """

    def write(self, rows: Sequence[Row]) -> None:
        """Take the next rows, in order; they are safe where they belong when this returns."""

    def finish(self) -> None:
        """The run has ended and has all its rows: return when they, and what else goes with them, are there.

        What else: the result, plots, videos. Called again, after another `open`, where it failed, and
        whenever somebody looks whether anything is missing.
        """

    def close(self) -> None:
        """Release files and connections."""

    def abandon(self) -> None:
        """Another thread is in one of the other methods and is waited for no longer: cut it short."""
