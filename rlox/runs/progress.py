"""Live progress: a bar on a terminal, one line per interval elsewhere.

Imports no torch: the command line uses this module before it knows whether it will train.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from rlox.configs.check import require_bools

if TYPE_CHECKING:
    from rlox.sources.episodes import RecentEpisodes
    from rlox.training.loop import Hook
    from rlox.types import Clock, Progress, Update

__all__ = [
    "BarReporter",
    "LineReporter",
    "ProgressCallback",
    "ProgressSnapshot",
    "activity_text",
    "format_duration",
    "make_reporter",
    "make_reporter_if",
    "progress_callback",
    "progress_hook",
    "unit_label",
]

LINE_SECONDS = 2.0
MIN_BAR_COLUMNS = 80  # terminal columns; narrower terminals get fewer fields


@dataclass(frozen=True)
class ProgressSnapshot:
    """The progress of a run at one moment."""

    unit: str
    now: int  # in the unit, like the total
    total: int
    return_mean: float | None
    steps_per_second: float
    seconds: float
    seconds_left: float
    evaluating: float | None = None  # seconds of the running evaluation
    under_way: str = ""  # describes another long activity

    @classmethod
    def of(cls, clock: Clock, return_mean: float | None, speed: float, seconds: float) -> ProgressSnapshot:
        """Make a snapshot from a clock, the elapsed seconds and a speed in units per second."""
        seconds_left = clock.units_left / speed if speed else float("inf")
        return cls(clock.unit, clock.now, clock.horizon, return_mean, speed, seconds, seconds_left)


class ProgressCallback(Protocol):
    """A callback that reports progress."""

    def __call__(self, now: int, return_mean: float | None = None) -> None:
        """Report that `now` units are done."""


class LineReporter:
    """Prints a line every few seconds, for log files and pipes."""

    def __init__(self) -> None:
        self._next = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: there is nothing to restore."""

    def __call__(self, snapshot: ProgressSnapshot) -> None:
        """Print if the interval is over or the run has ended."""
        is_over = snapshot.now >= snapshot.total and snapshot.evaluating is None
        if time.monotonic() < self._next and not is_over:
            return
        self._next = time.monotonic() + LINE_SECONDS
        unit = unit_label(snapshot.unit)
        steps = (
            f"{unit} {snapshot.now:>{len(f'{snapshot.total:,}')},}/{snapshot.total:,}{_return_text(snapshot)}"
        )
        speed = f"{snapshot.steps_per_second:,.0f} {unit}/s  left {format_duration(snapshot.seconds_left)}"
        print(f"{steps}  {activity_text(snapshot) or speed}", flush=True)


class BarReporter:
    """Shows a rich progress bar."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            TaskProgressColumn,
            TextColumn,
        )

        # NO_COLOR must also drop styles such as bold, which are escape codes too
        console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto")
        columns: list[ProgressColumn] = [
            TextColumn("[bold]{task.fields[steps]}"),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
        ]
        if console.width >= MIN_BAR_COLUMNS:
            columns.insert(1, BarColumn(bar_width=None))
            columns[3:3] = [TextColumn("{task.fields[score]}"), TextColumn("{task.fields[speed]}")]
        self._progress = Progress(*columns, console=console, expand=True)
        self._task: Any = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, snapshot: ProgressSnapshot) -> None:
        """Redraw."""
        unit = unit_label(snapshot.unit)
        fields: dict[str, Any] = {
            "steps": f"{snapshot.now:,}/{snapshot.total:,} {unit}",
            "score": _return_text(snapshot).strip(),
            "speed": f"{snapshot.steps_per_second:,.0f} {unit}/s",
            "left": activity_text(snapshot) or f"{format_duration(snapshot.seconds_left)} left",
        }
        if self._task is None:
            self._task = self._progress.add_task("", total=snapshot.total, completed=snapshot.now, **fields)
        self._progress.update(self._task, completed=snapshot.now, **fields)


def progress_hook(report: LineReporter | BarReporter, start: int, recent: RecentEpisodes) -> Hook:
    """Return a hook of the loop that reports after every tick; the run begins at `start` of its unit."""
    start_time = time.perf_counter()

    def hook(clock: Clock, progress: Progress, update: Update) -> None:
        seconds = max(time.perf_counter() - start_time, 1e-9)
        report(ProgressSnapshot.of(clock, recent.mean_return, (clock.now - start) / seconds, seconds))

    return hook


def progress_callback(report: Callable[[ProgressSnapshot], None], unit: str, total: int) -> ProgressCallback:
    """Return a callback that reports how much of `total` is done, and the speed since this call."""
    start_time = time.perf_counter()

    def on_progress(now: int, return_mean: float | None = None) -> None:
        seconds = max(time.perf_counter() - start_time, 1e-9)
        now = min(now, total)
        speed = now / seconds
        seconds_left = (total - now) / speed if speed else float("inf")
        report(ProgressSnapshot(unit, now, total, return_mean, speed, seconds, seconds_left))

    return on_progress


def make_reporter(first_line: str = "") -> LineReporter | BarReporter:
    """Print `first_line`; return a bar if standard output is a terminal with a cursor, else lines."""
    if first_line:
        print(first_line, flush=True)
    can_move_cursor = os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return BarReporter() if can_move_cursor and sys.stdout.isatty() else LineReporter()


def make_reporter_if(
    progress: bool, first_line: str = ""
) -> AbstractContextManager[LineReporter | BarReporter | None]:
    """Call `make_reporter` if `progress` is true; raise `ConfigError` if it is not a bool."""
    require_bools(progress=progress)
    return make_reporter(first_line) if progress else nullcontext()


def format_duration(seconds: float | None) -> str:
    """Format seconds as `0:42`, `12:05` or `3:07:20`; `-:--` if unknown."""
    if seconds is None or not 0 <= seconds < 1e8:
        return "-:--"
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{remainder:02d}" if hours else f"{minutes}:{remainder:02d}"


def activity_text(snapshot: ProgressSnapshot) -> str:
    """Describe a long activity: `evaluating for 0:12`, `rollout 8,192 of 65,536`; empty between updates."""
    if snapshot.evaluating is not None:
        return f"evaluating for {format_duration(snapshot.evaluating)}"
    return snapshot.under_way


def unit_label(unit: str) -> str:
    """Return the short name of a run's unit."""
    return "steps" if unit == "env_steps" else unit


def _return_text(snapshot: ProgressSnapshot) -> str:
    """Format the mean training return; empty before the first episode, and for runs without episodes."""
    return "" if snapshot.return_mean is None else f"  return {snapshot.return_mean:.1f}"
