"""Tests of sweeps whose workers are processes: signals, kills, and several sweeps in one folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY
from helpers.gate import open_gate, waiting_processes, write_gate_env
from helpers.waiting import PATIENCE, until

from rlox_cli.runs.run_folder import is_locked, read_status

from .test_sweep import rows

GIVEN = (*TINY, "seed=1,2,3", "hydra.sweep.dir=sweep", "sweep.workers=2")
ENDLESS = "total_steps=1e9"
# each job waits in its middle until it is stopped or its gate opens
GATED = ("env=gated:Gated-v0", "env.kwargs.at=100", "total_steps=1024")


@pytest.fixture
def sweep(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start sweeps in processes of their own, and kill those that still run after the test."""
    begun: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rlox_cli.main", "sweep", *GIVEN, *args]
        pipe = subprocess.PIPE
        begun.append(
            subprocess.Popen(
                command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True
            )
        )
        return begun[-1]

    yield start
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def training(folder: Path, count: int) -> list[Path]:
    """Return the jobs that train, or none while there are fewer than `count`."""
    found = [p.parent for p in folder.glob("sweep/[0-9]*/episodes.jsonl") if p.stat().st_size]
    return found if len(found) >= count else []


def of_group(pid: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == pid and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def state(run: Path) -> str:
    return str(read_status(run)["status"])


CASES = [
    (signal.SIGTERM, False, 143),
    pytest.param(signal.SIGTERM, True, 143, marks=pytest.mark.slow),
    (signal.SIGHUP, True, 129),
]


def stopped(process: Any, folder: Path, number: int, to_all: bool, code: int) -> str:
    """Send a signal to a sweep in which two jobs train, and return what the sweep prints."""
    (os.killpg if to_all else os.kill)(process.pid, number)
    out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == code, err
    assert "Traceback" not in out + err
    until(lambda: not of_group(process.pid), "end of every process")
    table = rows(folder / "sweep")
    assert [row["status"] for row in table] == ["killed", "killed", "not started"]
    return str(out)


@pytest.mark.parametrize(("number", "to_all", "code"), CASES)
def test_a_signal_stops_every_run_and_says_how_to_go_on(
    sweep: Any, tmp_path: Path, number: int, to_all: bool, code: int
) -> None:
    process = sweep(ENDLESS)
    until(lambda: training(tmp_path, 2), "two jobs on their way")
    out = stopped(process, tmp_path, number, to_all, code)
    again = f"to go on: rlox sweep {' '.join(TINY)} seed=1,2,3 sweep.workers=2 {ENDLESS} "
    assert f"{again}hydra.sweep.dir=sweep\n" in out
    assert all(list(run.glob("checkpoints/step-*")) for run in training(tmp_path, 2))


def test_the_same_command_goes_on_with_the_runs_that_ctrl_c_stopped(sweep: Any, tmp_path: Path) -> None:
    write_gate_env(tmp_path)
    process = sweep(*GATED)
    until(lambda: waiting_processes(tmp_path, 2), "two jobs at their gates")
    stopped(process, tmp_path, signal.SIGINT, True, 130)
    left = training(tmp_path, 2)
    saved = [int(read_status(run)["step"]) for run in left]
    assert all(0 < step < 1024 for step in saved)
    open_gate(tmp_path)
    second = sweep(*GATED)
    out, err = second.communicate(timeout=2 * PATIENCE)
    assert second.returncode == 0, err
    for step in saved:
        assert f"resumed at step {step:,} of 1,024 (exact)" in out
    assert "3 of 3 jobs done" in out
    alone = sweep(*GATED, "hydra.sweep.dir=alone", "sweep.workers=1")
    alone.communicate(timeout=2 * PATIENCE)
    for run in left:
        whole = tmp_path / "alone" / run.name / "episodes.jsonl"
        assert (run / "episodes.jsonl").read_bytes() == whole.read_bytes()


def test_a_second_signal_ends_everything_at_once(sweep: Any, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    process = sweep("env=slow:Slow-v0", ENDLESS)
    until(lambda: len(list(tmp_path.glob("waits-*"))) >= 2, "two jobs in a step that does not end")
    os.kill(process.pid, signal.SIGTERM)
    until(lambda: "SIGTERM" in process.stderr.readline(), "an answer")  # on one CPU a warning comes before it
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(2 * PATIENCE) == 143
    until(lambda: not of_group(process.pid), "end of every process")


SLOW = """
import os
import time
from pathlib import Path
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv


class Slow(CartPoleEnv):
    def step(self, action):
        Path(f"waits-{os.getpid()}").touch()
        time.sleep(3600)


gym.register("Slow-v0", Slow)
"""


def test_the_runs_of_a_killed_sweep_end_as_killed(sweep: Any, tmp_path: Path) -> None:
    process = sweep(ENDLESS)
    running = until(lambda: training(tmp_path, 2), "two jobs on their way")
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: not of_group(process.pid), "end of every process")
    assert [state(run) for run in running] == ["killed", "killed"]
    assert not any(is_locked(run) for run in running)


def test_a_job_whose_worker_was_killed_is_named_and_can_be_done_again(sweep: Any, tmp_path: Path) -> None:
    write_gate_env(tmp_path)
    process = sweep(*GATED)
    killed = until(lambda: waiting_processes(tmp_path, 2), "two jobs at their gates")[0]
    (victim,) = [run for run in training(tmp_path, 2) if read_status(run)["pid"] == killed]
    os.kill(killed, signal.SIGKILL)
    open_gate(tmp_path)
    out, err = process.communicate(timeout=2 * PATIENCE)
    assert process.returncode == 1, err
    assert f"killed: {victim.name}: its process was ended by SIGKILL" in out
    assert "2 of 3 jobs done" in out
    assert state(victim) == "killed"
    again = sweep(*GATED)
    out, err = again.communicate(timeout=2 * PATIENCE)
    assert again.returncode == 0, err
    assert "3 of 3 jobs done, 2 of them before" in out


def test_two_sweeps_in_one_folder_share_its_jobs(sweep: Any, tmp_path: Path) -> None:
    write_gate_env(tmp_path)
    both = [sweep(*GATED), sweep(*GATED)]
    until(
        lambda: waiting_processes(tmp_path, 3),
        "three jobs at their gates, of sweeps with two workers",
    )
    open_gate(tmp_path)
    ended = [process.communicate(timeout=2 * PATIENCE) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    done = [out.count(" done score ") for out, _ in ended]
    assert sum(done) == 3 and min(done) == 1
    runs = sorted(p.name for p in (tmp_path / "sweep").iterdir() if p.is_dir())
    assert len(runs) == 3 and not [name for name in runs if "attempt" in name]
    results = [json.loads(p.read_text()) for p in tmp_path.glob("sweep/*/result.json")]
    assert [r["status"] for r in results] == ["done"] * 3
