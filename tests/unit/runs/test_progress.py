"""Tests that the progress bar fits the terminal."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from rlox.runs.progress import BarReporter, ProgressSnapshot


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def raw(monkeypatch: pytest.MonkeyPatch, columns: int, **environment: str) -> str:
    """Returns what the bar writes to the terminal halfway through a run."""
    terminal: Any = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    for name, value in {"COLUMNS": str(columns), "TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    with BarReporter() as bar:
        bar(ProgressSnapshot("env_steps", 50_000, 100_000, 123.4, 5_000.0, 10.0, 10.0))
    return str(terminal.getvalue())


def drawn(monkeypatch: pytest.MonkeyPatch, columns: int) -> list[str]:
    """Returns the lines of the bar, without the terminal's codes."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", raw(monkeypatch, columns))
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.mark.parametrize("columns", [40, 50, 79])
def test_on_a_narrow_terminal_steps_part_and_time_left_are_whole(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    line = drawn(monkeypatch, columns)[-1]
    assert re.fullmatch(r"50,000/100,000 steps\s+50%\s+0:10 left", line)
    assert len(line) <= columns


@pytest.mark.parametrize("columns", [80, 120])
def test_a_wide_terminal_shows_also_the_bar_the_return_and_the_speed(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    line = drawn(monkeypatch, columns)[-1]
    assert re.search(r"50,000/100,000 steps\s+\S*━.*50%.*return 123\.4.*5,000 steps/s.*0:10 left", line)
    assert len(line) <= columns


def test_the_progress_bar_prints_no_colors_if_no_color_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    color = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])[;m]")
    assert color.search(raw(monkeypatch, 60))
    plain = raw(monkeypatch, 60, NO_COLOR="1")
    assert "50%" in plain
    assert not color.search(plain)
