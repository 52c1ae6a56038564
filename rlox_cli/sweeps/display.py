"""Display of jobs that run in parallel: one live line per job on a terminal, else one line per event."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlox.runs.progress import MIN_BAR_COLUMNS, ProgressSnapshot, activity_text, format_duration, unit_label
from rlox_cli.runs import summary
from rlox_cli.runs.run_folder import KILLED, read_result
from rlox_cli.shell.exit_codes import OK
from rlox_cli.shell.messages import shorten
from rlox_cli.sweeps.job_titles import job_title

LINE_SECONDS = 10.0  # seconds between lines about one job
REDRAW_SECONDS = 0.2
NARROW_WIDTH = 60  # columns; below that, permanent lines are easier to read
STARTED_KINDS = ("begun", "resumed")
SHOWN_KINDS = ("resumed", "skipped", "checked")  # messages that the display's own lines do not cover
NAME_WIDTH = 32  # columns for a job's title


class Display:
    """One line per event, for pipes, log files and narrow terminals."""

    def __init__(self, total: int, common_overrides: Collection[str]) -> None:
        self.total, self.common_overrides = total, common_overrides
        self._next_line_at: dict[int, float] = {}
        self._unannounced: dict[int, str] = {}  # titles of jobs that do not train yet

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: there is nothing to restore."""

    def on_started(self, number: int, overrides: Sequence[str]) -> None:
        """Record that a worker has the job; its start is printed once it trains."""
        self._unannounced[number] = self.name(overrides)

    def on_event(self, number: int, event: Mapping[str, Any]) -> None:
        """Show an event of the job."""
        if event["event"] == "progress" or event.get("about") in STARTED_KINDS:
            self._announce_start(number)
        if event["event"] == "progress":
            self.on_progress(number, ProgressSnapshot(**event["snapshot"]))
        elif event["event"] == "printed" or event.get("about") in SHOWN_KINDS:
            self.print_lines(number, event["text"].strip(), is_error=event.get("error", False))

    def on_progress(self, number: int, snapshot: ProgressSnapshot) -> None:
        """Show the progress of the job."""
        if time.monotonic() >= self._next_line_at.get(number, 0.0):
            self._next_line_at[number] = time.monotonic() + LINE_SECONDS
            self.print_lines(number, "  ".join(filter(None, progress_cells(snapshot))))

    def on_ended(self, number: int, outcome: Mapping[str, Any]) -> None:
        """Show how the job ended; a skipped job has reported that itself."""
        name = self._unannounced.pop(number, "")
        if text := closing_line(outcome):
            if name:  # the job failed before it began
                self.print_lines(number, name)
            self.print_lines(number, text, is_error=outcome["code"] != OK and outcome["status"] != KILLED)

    def on_stopped(self, number: int) -> None:
        """Show that a signal stopped the job before it began."""
        self._unannounced.pop(number, None)
        self.print_lines(number, "stopped before it began")

    def note(self, text: str) -> None:
        """Show a note about the sweep."""
        self.print_lines(None, text, is_error=True)

    def tick(self) -> None:
        """Do nothing; `LiveTable` redraws here."""

    def _announce_start(self, number: int) -> None:
        name = self._unannounced.pop(number, None)
        if name is not None:
            self._next_line_at[number] = time.monotonic() + LINE_SECONDS
            self.print_lines(number, f"started {name}".rstrip())

    def print_lines(self, number: int | None, text: str, is_error: bool = False) -> None:
        """Print each line with the number of its job."""
        for part in text.splitlines() or [""]:
            self.print_line(f"{self.label(number)} {part}".strip(), is_error)

    def print_line(self, text: str, is_error: bool) -> None:
        """Print a line."""
        print(text, file=sys.stderr if is_error else sys.stdout, flush=True)

    def label(self, number: int | None) -> str:
        """Return `[3/12]`."""
        return "" if number is None else f"[{number + 1}/{self.total}]"

    def name(self, overrides: Sequence[str]) -> str:
        """Return the title that tells the job apart from the others."""
        return job_title(overrides, self.common_overrides)


class LiveTable(Display):
    """A live line for each running job; permanent lines are printed above."""

    def __init__(self, total: int, common_overrides: Collection[str]) -> None:
        super().__init__(total, common_overrides)
        from rich.console import Console
        from rich.live import Live

        self._names: dict[int, str] = {}
        self._snapshots: dict[int, ProgressSnapshot] = {}
        self._drawn_at = 0.0
        self._console = Console(highlight=False)
        # The loop of the sweep redraws the table: a thread of rich could draw into other output.
        # Rich must not redirect standard error either, which may lead elsewhere.
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            get_renderable=self._render,
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

    def on_started(self, number: int, overrides: Sequence[str]) -> None:
        """Add a line for the job."""
        self._names[number] = self.name(overrides)
        self._draw()

    def on_progress(self, number: int, snapshot: ProgressSnapshot) -> None:
        """Store the progress for the next redraw."""
        self._snapshots[number] = snapshot

    def on_ended(self, number: int, outcome: Mapping[str, Any]) -> None:
        """Remove the line of the job and print how it ended."""
        name = self._forget(number)
        if text := closing_line(outcome):
            self.print_lines(number, f"{name}: {text}" if name else text)

    def on_stopped(self, number: int) -> None:
        """Remove the line of the job and print that it was stopped."""
        self._forget(number)
        super().on_stopped(number)

    def tick(self) -> None:
        """Redraw every `REDRAW_SECONDS`."""
        if time.monotonic() - self._drawn_at >= REDRAW_SECONDS:
            self._draw()

    def print_line(self, text: str, is_error: bool) -> None:
        """Print above the live lines; errors go to standard error unless that is a terminal."""
        if is_error and not sys.stderr.isatty():
            super().print_line(text, is_error)
            return
        from rich.text import Text

        self._console.print(Text(text))

    def _forget(self, number: int) -> str:
        self._snapshots.pop(number, None)
        name = self._names.pop(number, "")
        self._draw()
        return name

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        self._live.refresh()

    def _render(self) -> Any:
        from rich.table import Table as Grid

        grid = Grid.grid(padding=(0, 2, 0, 0))
        is_wide = self._console.width >= MIN_BAR_COLUMNS
        for column in range(6 if is_wide else 4):
            grid.add_column(no_wrap=True, overflow="ellipsis", max_width=NAME_WIDTH * (column == 1) or None)
        shown_jobs = sorted(self._names)[: max(1, self._console.height - 2)]
        for number in shown_jobs:
            cells = [self.label(number), self._names[number]]
            snapshot = self._snapshots.get(number)
            steps, score, speed, time_left = progress_cells(snapshot) if snapshot else ("starts", "", "", "")
            grid.add_row(*cells, steps, *([score, speed] if is_wide else []), time_left)
        return grid


def make_display(total: int, common_overrides: Collection[str]) -> Display:
    """Return the display that fits standard output."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return Display(total, common_overrides)
    from rich.console import Console

    console = Console()
    is_small = console.is_dumb_terminal or console.width < NARROW_WIDTH
    return Display(total, common_overrides) if is_small else LiveTable(total, common_overrides)


def progress_cells(snapshot: ProgressSnapshot) -> tuple[str, str, str, str]:
    """Return steps, return, speed and time left as text."""
    unit_word = unit_label(snapshot.unit)
    score = "" if snapshot.return_mean is None else f"return {snapshot.return_mean:.1f}"
    return (
        f"{unit_word} {snapshot.now:,}/{snapshot.total:,}",
        score,
        f"{snapshot.steps_per_second:,.0f} {unit_word}/s",
        activity_text(snapshot) or f"left {format_duration(snapshot.seconds_left)}",
    )


def closing_line(outcome: Mapping[str, Any]) -> str:
    """Return how a job ended, with its score; empty for a job that did nothing."""
    if outcome["status"] in ("skipped", "checked"):
        return ""
    if outcome["message"]:
        return f"{outcome['status']}: {shorten(outcome['message'], 4)}"
    folder = outcome["folder"]
    with suppress(OSError, ValueError, KeyError, TypeError):  # the folder may have been moved
        if folder and (result := read_result(Path(folder))):
            return _result_line(outcome["status"], result, folder)
    return str(outcome["status"])


def _result_line(status: str, result: Mapping[str, Any], folder: str) -> str:
    steps = f"{result[result['unit']]:,} {unit_label(result['unit'])}"
    if status == KILLED:
        return f"stopped after {steps}, {folder}"
    score = f"score {summary.format_number(result['score'])}, " if result["score"] is not None else ""
    return f"{status} {score}{steps} in {format_duration(result['seconds']['total'])}, {folder}"
