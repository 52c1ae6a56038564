"""What is shown of jobs that run side by side: a live line each on a terminal, else a line an event."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlox.runs.progress import WIDE, Snapshot, duration, under_way, word
from rlox_cli import summary
from rlox_cli.exit_codes import OK
from rlox_cli.job_titles import job_title
from rlox_cli.messages import shorten
from rlox_cli.run_folder import KILLED, read_result

LINE_SECONDS = 10.0  # between lines about one job
REDRAW_SECONDS = 0.2
NARROW = 60  # columns, below which lines that stay are easier to read
BEGUN = ("begun", "resumed")
TOLD = ("resumed", "skipped", "checked")  # parts of a job's story that its own lines do not say
NAME = 32  # columns for what sets a job apart


class Display:
    """One line an event, for pipes, log files and narrow terminals."""

    def __init__(self, total: int, common: Collection[str]) -> None:
        self.total, self.common = total, common
        self._due: dict[int, float] = {}
        self._unsaid: dict[
            int, str
        ] = {}  # what jobs are whose process has only just been given them

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to restore."""

    def started(self, number: int, overrides: Sequence[str]) -> None:
        """A worker has the job; it is said to have started once it trains."""
        self._unsaid[number] = self.name(overrides)

    def event(self, number: int, event: Mapping[str, Any]) -> None:
        """What the job says of itself."""
        if event["event"] == "progress" or event.get("about") in BEGUN:
            self._say_started(number)
        if event["event"] == "progress":
            self.progress(number, Snapshot(**event["snapshot"]))
        elif event["event"] == "printed" or event.get("about") in TOLD:
            self.line(number, event["text"].strip(), error=event.get("error", False))

    def progress(self, number: int, now: Snapshot) -> None:
        """How far it is."""
        if time.monotonic() >= self._due.get(number, 0.0):
            self._due[number] = time.monotonic() + LINE_SECONDS
            self.line(number, "  ".join(filter(None, parts(now))))

    def ended(self, number: int, outcome: Mapping[str, Any]) -> None:
        """How it ended; of one that was skipped it has said so."""
        name = self._unsaid.pop(number, "")
        if text := closing(outcome):
            if name:  # it failed before it began
                self.line(number, name)
            self.line(number, text, error=outcome["code"] != OK and outcome["status"] != KILLED)

    def stopped(self, number: int) -> None:
        """A signal came before it began."""
        self._unsaid.pop(number, None)
        self.line(number, "stopped before it began")

    def note(self, text: str) -> None:
        """Something about the sweep."""
        self.line(None, text, error=True)

    def tick(self) -> None:
        """Time passes."""

    def _say_started(self, number: int) -> None:
        name = self._unsaid.pop(number, None)
        if name is not None:
            self._due[number] = time.monotonic() + LINE_SECONDS
            self.line(number, f"started {name}".rstrip())

    def line(self, number: int | None, text: str, error: bool = False) -> None:
        """Print each line with the number of its job."""
        for part in text.splitlines() or [""]:
            self.print(f"{self.label(number)} {part}".strip(), error)

    def print(self, text: str, error: bool) -> None:
        """Print a line."""
        print(text, file=sys.stderr if error else sys.stdout, flush=True)

    def label(self, number: int | None) -> str:
        """`[3/12]`."""
        return "" if number is None else f"[{number + 1}/{self.total}]"

    def name(self, overrides: Sequence[str]) -> str:
        """What sets the job apart from the others."""
        return job_title(overrides, self.common)


class Table(Display):
    """A live line for each job that runs; what stays is printed above."""

    def __init__(self, total: int, common: Collection[str]) -> None:
        super().__init__(total, common)
        from rich.console import Console
        from rich.live import Live

        self._names: dict[int, str] = {}
        self._now: dict[int, Snapshot] = {}
        self._drawn = 0.0
        self._console = Console(highlight=False)
        # The loop of the sweep redraws it: a thread of rich's could draw into what it prints.
        # Nor shall rich take standard error, which may lead elsewhere.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._rendered,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def started(self, number: int, overrides: Sequence[str]) -> None:
        """Give it a line."""
        self._names[number] = self.name(overrides)
        self._draw()

    def progress(self, number: int, now: Snapshot) -> None:
        """Change its line when it is next drawn."""
        self._now[number] = now

    def ended(self, number: int, outcome: Mapping[str, Any]) -> None:
        """Its line goes, how it ended stays."""
        name = self._forget(number)
        if text := closing(outcome):
            self.line(number, f"{name}: {text}" if name else text)

    def stopped(self, number: int) -> None:
        """Its line goes."""
        self._forget(number)
        super().stopped(number)

    def tick(self) -> None:
        """Redraw now and then."""
        if time.monotonic() - self._drawn >= REDRAW_SECONDS:
            self._draw()

    def print(self, text: str, error: bool) -> None:
        """Print above the live lines; errors where errors go, unless that is the same terminal."""
        if error and not sys.stderr.isatty():
            super().print(text, error)
            return
        from rich.text import Text

        self._console.print(Text(text))

    def _forget(self, number: int) -> str:
        self._now.pop(number, None)
        name = self._names.pop(number, "")
        self._draw()
        return name

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        self._live.refresh()

    def _rendered(self) -> Any:
        from rich.table import Table as Grid

        grid = Grid.grid(padding=(0, 2, 0, 0))
        wide = self._console.width >= WIDE
        for column in range(6 if wide else 4):
            grid.add_column(
                no_wrap=True, overflow="ellipsis", max_width=NAME * (column == 1) or None
            )
        shown = sorted(self._names)[: max(1, self._console.height - 2)]
        for number in shown:
            cells = [self.label(number), self._names[number]]
            now = self._now.get(number)
            steps, score, speed, left = parts(now) if now else ("starts", "", "", "")
            grid.add_row(*cells, steps, *([score, speed] if wide else []), left)
        return grid


def display(total: int, common: Collection[str]) -> Display:
    """The one that fits standard output."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return Display(total, common)
    from rich.console import Console

    console = Console()
    small = console.is_dumb_terminal or console.width < NARROW
    return Display(total, common) if small else Table(total, common)


def parts(now: Snapshot) -> tuple[str, str, str, str]:
    """Steps, return, speed and time left."""
    counted = word(now.unit)
    score = "" if now.return_mean is None else f"return {now.return_mean:.1f}"
    return (
        f"{counted} {now.now:,}/{now.total:,}",
        score,
        f"{now.steps_per_second:,.0f} {counted}/s",
        under_way(now) or f"left {duration(now.seconds_left)}",
    )


def closing(outcome: Mapping[str, Any]) -> str:
    """How a job ended, with its score; nothing of one that did nothing."""
    if outcome["status"] in ("skipped", "checked"):
        return ""
    if outcome["message"]:
        return f"{outcome['status']}: {shorten(outcome['message'], 4)}"
    folder = outcome["folder"]
    with suppress(OSError, ValueError, KeyError, TypeError):  # somebody may have moved it
        if folder and (result := read_result(Path(folder))):
            return _results(outcome["status"], result, folder)
    return str(outcome["status"])


def _results(status: str, result: Mapping[str, Any], folder: str) -> str:
    steps = f"{result[result['unit']]:,} {word(result['unit'])}"
    if status == KILLED:
        return f"stopped after {steps}, {folder}"
    score = f"score {summary.number(result['score'])}, " if result["score"] is not None else ""
    return f"{status} {score}{steps} in {duration(result['seconds']['total'])}, {folder}"
