"""Live progress: a bar on a terminal, one line per interval elsewhere.

Imports no torch: the command line has the words of it before it knows that it will train.
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
    "Bar",
    "Lines",
    "Pace",
    "Snapshot",
    "duration",
    "paced",
    "reporter",
    "reporting",
    "shown",
    "under_way",
    "word",
]

LINE_SECONDS = 2.0
WIDE = 80  # columns, below which only what fits is shown


@dataclass(frozen=True)
class Snapshot:
    """How far a run is."""

    unit: str
    now: int  # in the unit, as the total
    total: int
    return_mean: float | None
    steps_per_second: float
    seconds: float
    seconds_left: float
    evaluating: float | None = None  # seconds of the evaluation that is being made
    under_way: str = ""  # in words, what else is being done and takes long

    @classmethod
    def of(cls, clock: Clock, return_mean: float | None, speed: float, seconds: float) -> Snapshot:
        """At a clock, after so many seconds, at a speed in its unit."""
        left = clock.left / speed if speed else float("inf")
        return cls(clock.unit, clock.now, clock.horizon, return_mean, speed, seconds, left)


class Pace(Protocol):
    """What is told how far something is."""

    def __call__(self, now: int, return_mean: float | None = None) -> None:
        """So much of it is done."""


class Lines:
    """A line every few seconds, for log files and pipes."""

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
        """Nothing to restore."""

    def __call__(self, now: Snapshot) -> None:
        """Print when the interval is over or the run is."""
        over = now.now >= now.total and now.evaluating is None
        if time.monotonic() < self._next and not over:
            return
        self._next = time.monotonic() + LINE_SECONDS
        counted = word(now.unit)
        steps = f"{counted} {now.now:>{len(f'{now.total:,}')},}/{now.total:,}{_return(now)}"
        speed = f"{now.steps_per_second:,.0f} {counted}/s  left {duration(now.seconds_left)}"
        print(f"{steps}  {under_way(now) or speed}", flush=True)


class Bar:
    """A rich progress bar."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            ProgressColumn,
            TaskProgressColumn,
            TextColumn,
        )

        # styles are codes too, bold as well as colours
        console = Console(color_system=None if os.environ.get("NO_COLOR") else "auto")
        columns: list[ProgressColumn] = [
            TextColumn("[bold]{task.fields[steps]}"),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
        ]
        if console.width >= WIDE:
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

    def __call__(self, now: Snapshot) -> None:
        """Redraw."""
        counted = word(now.unit)
        fields: dict[str, Any] = {
            "steps": f"{now.now:,}/{now.total:,} {counted}",
            "score": _return(now).strip(),
            "speed": f"{now.steps_per_second:,.0f} {counted}/s",
            "left": under_way(now) or f"{duration(now.seconds_left)} left",
        }
        if self._task is None:
            self._task = self._progress.add_task("", total=now.total, completed=now.now, **fields)
        self._progress.update(self._task, completed=now.now, **fields)


def shown(report: Lines | Bar, start: int, recent: RecentEpisodes) -> Hook:
    """A hook of the loop that reports after every tick; the run begins at `start` of its unit."""
    began = time.perf_counter()

    def hook(clock: Clock, progress: Progress, update: Update) -> None:
        seconds = max(time.perf_counter() - began, 1e-9)
        report(Snapshot.of(clock, recent.mean_return, (clock.now - start) / seconds, seconds))

    return hook


def paced(report: Callable[[Snapshot], None], unit: str, total: int) -> Pace:
    """What is told how much of `total` is done since now, and reports it with its speed."""
    began = time.perf_counter()

    def told(now: int, return_mean: float | None = None) -> None:
        seconds = max(time.perf_counter() - began, 1e-9)
        now = min(now, total)
        speed = now / seconds
        left = (total - now) / speed if speed else float("inf")
        report(Snapshot(unit, now, total, return_mean, speed, seconds, left))

    return told


def reporter(first: str = "") -> Lines | Bar:
    """The one that fits standard output, below a `first` line: a terminal that moves no cursor gets lines."""
    if first:
        print(first, flush=True)
    moves = os.environ.get("TERM", "").lower() not in ("dumb", "unknown")
    return Bar() if moves and sys.stdout.isatty() else Lines()


def reporting(progress: bool, first: str = "") -> AbstractContextManager[Lines | Bar | None]:
    """The `reporter` where an algorithm was asked to show its progress; `ConfigError` for no bool."""
    require_bools(progress=progress)
    return reporter(first) if progress else nullcontext()


def duration(seconds: float | None) -> str:
    """`0:42`, `12:05`, `3:07:20`; `-:--` when unknown."""
    if seconds is None or not 0 <= seconds < 1e8:
        return "-:--"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def under_way(now: Snapshot) -> str:
    """`evaluating for 0:12`, `rollout 8,192 of 65,536`: what takes long; empty between two updates."""
    if now.evaluating is not None:
        return f"evaluating for {duration(now.evaluating)}"
    return now.under_way


def word(unit: str) -> str:
    """What a run's unit is called where it is short."""
    return "steps" if unit == "env_steps" else unit


def _return(now: Snapshot) -> str:
    """The mean training return; nothing before the first episode, and of runs that play none."""
    return "" if now.return_mean is None else f"  return {now.return_mean:.1f}"
