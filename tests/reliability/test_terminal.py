"""Tests `rlox train` in a real terminal: closed, narrow, without colour, and with Ctrl-C."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.gate import open_gate, waiting_processes, write_gate_env
from helpers.terminal import (
    ENDLESS,
    SHORT,
    Terminal,
    expected_summary,
    go_on,
    only_run,
    run_summary,
)
from helpers.waiting import until

ESCAPE = "\x1b"
UNDER_WAY = "/1,000,000,000 steps"  # shown from the first update on


def test_ctrl_c_in_a_terminal_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    with Terminal(ENDLESS, tmp_path) as terminal:
        terminal.until(UNDER_WAY)
        terminal.type("\x03")
        assert terminal.end() == 130
        assert "Traceback" not in terminal.text
        assert "Ctrl-C: stopping, and saving if the step under way ends within 2 s" in terminal.text
        assert "killed (stopped by Ctrl-C)" in terminal.text
    left = run_summary(only_run(tmp_path))
    assert (left["status"], left["saved"]) == ("killed", left["step"])
    assert left["step"] > 0
    total = left["step"] + 256
    again = go_on(terminal.visible, total, tmp_path)
    assert again.returncode == 0, again.stderr
    assert f"resumed at step {left['step']:,} of {total:,} (exact)" in again.stdout
    assert run_summary(only_run(tmp_path)) == expected_summary(total)


def test_a_terminal_that_is_closed_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    with Terminal(ENDLESS, tmp_path) as terminal:
        terminal.until(UNDER_WAY)
        terminal.close()
        assert terminal.end() == 129
    left = run_summary(only_run(tmp_path))
    assert (left["status"], left["saved"]) == ("killed", left["step"])
    assert left["step"] > 0
    assert "Traceback" not in (only_run(tmp_path) / "log.txt").read_text()


def test_a_run_that_ignores_the_closed_terminal_comes_to_its_end(tmp_path: Path) -> None:
    write_gate_env(tmp_path)
    gated = (*SHORT, "env=gated:Gated-v0", "env.kwargs.at=64")
    with Terminal(gated, tmp_path, nohup=True) as terminal:
        until(lambda: waiting_processes(tmp_path, 1), "run at its gate")
        terminal.close()
        assert run_summary(only_run(tmp_path))["status"] == "running"
        open_gate(tmp_path)
        assert terminal.end() == 0
    assert run_summary(only_run(tmp_path)) == expected_summary()
    assert json.loads((only_run(tmp_path) / "result.json").read_text())["status"] == "done"
    assert "Traceback" not in (only_run(tmp_path) / "log.txt").read_text()


@pytest.mark.parametrize("columns", [50, 20])
def test_a_narrow_terminal_shows_how_far_it_is(tmp_path: Path, columns: int) -> None:
    with Terminal(SHORT, tmp_path, columns=columns) as terminal:
        assert terminal.end() == 0
    assert run_summary(only_run(tmp_path)) == expected_summary()
    drawn = [line for line in terminal.visible if line.startswith("512/512")]
    assert drawn
    assert all(len(line) <= columns for line in drawn)
    if columns == 50:
        assert re.fullmatch(r"512/512 steps\s+100%\s+0:00 left", drawn[-1])


def test_rlox_train_prints_no_escape_codes_to_a_dumb_terminal(tmp_path: Path) -> None:
    with Terminal(SHORT, tmp_path, TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert ESCAPE not in terminal.text
    assert any(re.match(r"steps 512/512 ", line) for line in terminal.visible)


def test_without_colour_the_bar_is_drawn_in_none(tmp_path: Path) -> None:
    with Terminal(SHORT, tmp_path, NO_COLOR="1") as terminal:
        assert terminal.end() == 0
    assert re.search(r"\x1b\[[\d;]*m", terminal.text) is None
    assert any("512/512 steps" in line and "100%" in line for line in terminal.visible)
