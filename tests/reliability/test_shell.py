"""Tests `rlox` in shells: pipes, missing streams, odd folders. The run is complete in each of them."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path

import pytest
from helpers.selection import FULL
from helpers.terminal import (
    ENDLESS,
    RLOX,
    SHORT,
    background,
    expected_summary,
    go_on,
    only_run,
    run_summary,
    shell,
    wait_until_begun,
)
from helpers.waiting import PATIENCE

TRAIN = " ".join(("rlox", *SHORT))
# Only full runs try these alone; the other cases combine them.
ALONE = ("2>/dev/full", "2>&-", "</dev/null") if FULL else ()
LOUD = ("Traceback", "Exception ignored", "Error", "\x1b")


def quiet(text: str) -> bool:
    """Whether the text has no sign of a failure and no terminal codes."""
    return not any(word in text for word in LOUD)


def test_a_reader_that_has_seen_enough_does_not_end_the_run(tmp_path: Path) -> None:
    ended = shell(f"{TRAIN} | head -1; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "ppo on CartPole-v1, seed 0, 512 steps\n"
    assert run_summary(only_run(tmp_path)) == expected_summary()
    assert json.loads((only_run(tmp_path) / "result.json").read_text())["status"] == "done"


def test_an_evaluation_that_nobody_reads_is_written(tmp_path: Path) -> None:
    assert shell(f"{TRAIN} hydra.run.dir=run", tmp_path).returncode == 0
    ended = shell("rlox evaluate run episodes=2 | true; exit ${PIPESTATUS[0]}", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(json.loads((tmp_path / "run/eval/last.json").read_text())["episodes"]) == 2


@pytest.mark.parametrize(
    "streams", [">/dev/full", ">/dev/full 2>&1 </dev/null", ">&-", "<&- >&- 2>&-", *ALONE]
)
def test_streams_that_are_full_or_missing_do_not_end_the_run(tmp_path: Path, streams: str) -> None:
    ended = shell(f"{TRAIN} {streams}", tmp_path)
    assert ended.returncode == 0
    assert quiet(ended.stdout + ended.stderr)
    assert run_summary(only_run(tmp_path)) == expected_summary()
    assert quiet((only_run(tmp_path) / "log.txt").read_text())


def test_a_run_with_closed_standard_streams_writes_no_message_into_its_files(
    tmp_path: Path,
) -> None:
    """The next opened file gets the number of a closed stream."""
    with background([*ENDLESS, "<&- >&- 2>&-"], tmp_path) as child:
        run = wait_until_begun(tmp_path)
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
    left = run_summary(run)
    assert (left["status"], left["saved"]) == ("killed", left["step"])
    told = [path for path in run.rglob("*") if path.is_file() and b"SIGINT" in path.read_bytes()]
    assert told == []
    for rows in ("metrics.jsonl", "episodes.jsonl"):
        assert all(json.loads(line) for line in (run / rows).read_text().splitlines())


def test_without_a_terminal_there_are_lines_and_no_codes(tmp_path: Path) -> None:
    ended = shell(TRAIN, tmp_path, TERM="xterm-256color")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert quiet(ended.stdout)
    assert any(line.startswith("steps 512/512") for line in ended.stdout.splitlines())


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])  # POSIX is another name of C
def test_the_printed_resume_command_works_for_folders_of_any_name(tmp_path: Path, locale: str) -> None:
    home = tmp_path / "日本 a=b"
    home.mkdir()
    given = shlex.join((*ENDLESS, "run_root=ünï cödé/x=[1]"))
    with background([given], home, LC_ALL=locale) as child:
        run = wait_until_begun(home)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130, err
    assert run.is_relative_to(home / "ünï cödé" / "x=[1]")
    left = run_summary(run)
    assert left["saved"] == left["step"] > 0
    total = left["step"] + 256
    again = go_on(os.fsdecode(out).splitlines(), total, home, LC_ALL=locale)
    assert again.returncode == 0, again.stderr
    assert run_summary(run) == expected_summary(total)


@pytest.mark.parametrize("start", [f'"{RLOX}"', f'"{Path(RLOX).with_name("python")}" -m rlox'])
def test_a_deleted_current_folder_gives_one_clear_error(tmp_path: Path, start: str) -> None:
    (tmp_path / "gone").mkdir()
    ended = shell(f"cd gone && rmdir ../gone && {start} train", tmp_path)
    assert (ended.returncode, ended.stdout) == (5, "")
    assert ended.stderr == ("rlox train: the current folder does not exist any more; cd to one that does\n")


@pytest.mark.parametrize("home", ["/proc", None])
def test_a_home_that_is_read_only_or_missing_is_not_needed(tmp_path: Path, home: str | None) -> None:
    ended = shell(TRAIN, tmp_path, HOME=home)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert run_summary(only_run(tmp_path)) == expected_summary()
    assert (only_run(tmp_path) / "plots" / "learning_curve.png").is_file()
