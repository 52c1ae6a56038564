"""Tests that instruction counts are differences between two runs, per element."""

from __future__ import annotations

import json
import subprocess

import instructions
import pytest
from instructions import CountError, count, measure, parse_instructions, run_command

START_UP, PER_RUN = 1_000_003, 5_120


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the commands; answers as a kernel of 1,024 elements with 5 instructions each."""
    asked: list[str] = []

    def answer(command: str) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        stderr = ""
        if command.startswith("valgrind --tool"):
            times = int(command.split()[-1])
            stderr = f"==7== Events    : Ir\n==7== Collected : {START_UP + times * PER_RUN}\n"
        return subprocess.CompletedProcess([], 0, "one/f64/1024 1024\n", stderr)

    monkeypatch.setattr(instructions, "run_command", answer)
    return asked


def test_instruction_counts_subtract_the_start_up_of_the_process(commands):
    counted = count("one/f64/1024", 1024)
    assert counted.per_element == 5.0
    assert counted.instructions == counted.runs * PER_RUN
    assert [int(c.split()[-1]) for c in commands] == [2, 2 + counted.runs]


def test_the_results_hold_the_command_of_every_count(commands, tmp_path, capsys):
    measure(["one/f64/1024"], tmp_path)
    tree = json.loads((tmp_path / "instructions.json").read_text())
    assert tree["kernels"][0]["command"] in commands
    page = (tmp_path / "instructions.md").read_text()
    assert "| one/f64/1024 | 1,024 | 976 | 5.00 |" in page
    assert instructions.BUILD_COMMAND in page
    assert "5.00 instructions per element" in capsys.readouterr().out


def test_an_unknown_kernel_is_named_with_those_there_are(commands, tmp_path):
    with pytest.raises(CountError, match=r"no kernel two; there are one/f64/1024"):
        measure(["two"], tmp_path)


def test_output_without_a_count_is_an_error():
    with pytest.raises(CountError, match="reported no count"):
        parse_instructions("==7== nothing")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("a-tool-that-nobody-has", "a-tool-that-nobody-has is not installed"),
        ("git no-such-command", "git no-such-command:\n"),
    ],
)
def test_the_instruction_counter_names_a_tool_that_fails_or_is_missing(command, message):
    with pytest.raises(CountError, match=message):
        run_command(command)
