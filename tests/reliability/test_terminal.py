"""`rlox train` in a real terminal: closed, narrow, plain, and with a hand on Ctrl-C."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.terminal import LONG, SHORT, Terminal, done, only, shell, stands

ESCAPE = "\x1b"


def test_ctrl_c_in_a_terminal_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    with Terminal(LONG, tmp_path) as terminal:
        terminal.until("0/40,960 steps")
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
        assert "SIGINT: stopping, saved if that is a moment away; again: at once" in terminal.text
    left = stands(only(tmp_path))
    assert (left["status"], left["saved"]) == ("killed", left["step"])
    assert 0 < left["step"] < 40_960
    (line,) = [line for line in terminal.visible if line.startswith("  resume  ")]
    again = shell(line.removeprefix("  resume  "), tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"resumed at step {left['step']:,} of 40,960 (exact)" in again.stdout
    assert stands(only(tmp_path)) == done(40_960)


def test_a_terminal_that_is_closed_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    with Terminal(LONG, tmp_path) as terminal:
        terminal.until("0/40,960 steps")
        terminal.close()
        assert terminal.end() == 129
    left = stands(only(tmp_path))
    assert (left["status"], left["saved"]) == ("killed", left["step"])
    assert 0 < left["step"] < 40_960
    assert "Traceback" not in (only(tmp_path) / "log.txt").read_text()


def test_a_run_that_ignores_the_closed_terminal_comes_to_its_end(tmp_path: Path) -> None:
    with Terminal(LONG, tmp_path, nohup=True) as terminal:
        terminal.until("0/40,960 steps")
        terminal.close()
        assert stands(only(tmp_path))["status"] == "running"
        assert terminal.end() == 0
    assert stands(only(tmp_path)) == done(40_960)
    assert json.loads((only(tmp_path) / "result.json").read_text())["status"] == "done"
    assert "Traceback" not in (only(tmp_path) / "log.txt").read_text()


@pytest.mark.parametrize("columns", [50, 20])
def test_a_narrow_terminal_shows_how_far_it_is(tmp_path: Path, columns: int) -> None:
    with Terminal(SHORT, tmp_path, columns=columns) as terminal:
        assert terminal.end() == 0
    assert stands(only(tmp_path)) == done()
    drawn = [line for line in terminal.visible if line.startswith("512/512")]
    assert drawn
    assert all(len(line) <= columns for line in drawn)
    if columns == 50:
        assert re.fullmatch(r"512/512 steps\s+100%\s+0:00 left", drawn[-1])


def test_a_terminal_without_codes_gets_none(tmp_path: Path) -> None:
    with Terminal(SHORT, tmp_path, TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert ESCAPE not in terminal.text
    assert any(re.match(r"steps 512/512 ", line) for line in terminal.visible)


def test_without_colour_the_bar_is_drawn_in_none(tmp_path: Path) -> None:
    with Terminal(SHORT, tmp_path, NO_COLOR="1") as terminal:
        assert terminal.end() == 0
    assert re.search(r"\x1b\[[\d;]*m", terminal.text) is None
    assert any("512/512 steps" in line and "100%" in line for line in terminal.visible)
