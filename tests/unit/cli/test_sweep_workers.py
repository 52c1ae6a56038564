"""Tests that parallel jobs of a sweep, `sweep.workers=N`, have the results of sequential jobs."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from helpers.cli import TINY, Cli, assert_explained
from helpers.terminal import Terminal

from rlox.configs import make_run
from rlox_cli.commands.sweep import COMMAND
from rlox_cli.runs import jobs, provenance, resume
from rlox_cli.runs.identity import identity
from rlox_cli.runs.run_folder import RunFolder, read_status
from rlox_cli.runs.signals import Signals
from rlox_cli.runs.training import TrainTask
from rlox_cli.shell.command import Call
from rlox_cli.sweeps import launcher
from rlox_cli.sweeps.display import Display
from rlox_cli.sweeps.sweep import PlannedJob, SweepPlan
from rlox_cli.sweeps.worker_pool import Task, WorkerPool

from .test_sweep import PLACE, job_names, rows

FAKE = Path(__file__).parents[2] / "helpers" / "fake_worker.py"
ENVIRONMENTS = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Breaking(gym.Env):
    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(2)
    left = 20

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("the motor burnt out")
        return np.zeros(2, np.float32), 1.0, self.left % 10 == 0, False, {}


class Never(Breaking):
    def __init__(self):
        raise OSError("no such robot")


gym.register("Burning-v0", Breaking)
gym.register("Never-v0", Never)
"""


def without_times(folder: Path) -> dict[str, Any]:
    """Return the results of a sweep without times, processes and paths."""
    (runs,) = [sorted(p for p in folder.iterdir() if p.is_dir())]
    table = [{k: v for k, v in row.items() if k != "seconds"} for row in rows(folder)]
    written = {
        f"{run.name}/{name}": (run / name).read_bytes()
        for run in runs
        for name in ("config.yaml", "episodes.jsonl", ".hydra/config.yaml", ".hydra/overrides.yaml")
    }
    return {"table": table, **written}


def test_parallel_jobs_end_like_sequential_jobs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "robots.py").write_text(ENVIRONMENTS)
    envs = "env=CartPole-v1,robots:Burning-v0,robots:Never-v0"
    given = (*TINY, "total_steps=128", envs, "seed=1")
    alone = cli("sweep", *given, "hydra.sweep.dir=alone")
    several = cli("sweep", *given, PLACE, "sweep.workers=2")
    assert (several.code, alone.code) == (1, 1)
    assert without_times(tmp_path / "sweep") == without_times(tmp_path / "alone")
    assert job_names(tmp_path / "sweep") == job_names(tmp_path / "alone")
    lines = several.out.splitlines()
    assert "[1/3] started env=CartPole-v1" in lines
    assert any(line.startswith("[1/3] done score ") for line in lines)
    assert "[2/3] failed: robots:Burning-v0 (copy 0) raised RuntimeError in step: " in several.err
    assert "[3/3] failed: " in several.err and "no such robot" in several.err
    assert "1 of 3 jobs done" in lines
    assert not [line for line in lines if line.startswith("[") and "ppo on" in line]
    again = cli("sweep", *TINY, "total_steps=128", "seed=1", PLACE)  # a smaller sweep in one process
    assert "1 of 2 jobs done, 1 of them before" in again.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ("train", "sweep.workers=2"),
            "rlox train: sweep.workers=2: a single run has no workers; for several runs: rlox sweep, "
            "or rlox train -m\n",
        ),
        (
            ("sweep", "seed=1,2", "hydra/launcher=joblib", "sweep.workers=2"),
            "rlox sweep: sweep.workers=2 and hydra/launcher=joblib both say where jobs run; leave one "
            "of them out\n",
        ),
        *(
            (
                ("train", key),
                f"rlox train: {key}: this key is for several runs: rlox sweep, or rlox train -m; the folder "
                "of one run is hydra.run.dir=FOLDER\n",
            )
            for key in (
                "hydra/launcher=joblib",
                "hydra/sweeper=rlox_optuna",
                "hydra.sweep.dir=x",
                "hydra.launcher.n_jobs=2",
            )
        ),
        *(
            (
                (*command, "seed=1,2", "hydra.run.dir=x"),
                f"rlox {command[0]}: hydra.run.dir=x: this is the folder of one run; for a sweep: "
                "hydra.sweep.dir=FOLDER\n",
            )
            for command in (("sweep",), ("train", "-m"))
        ),
    ],
)
def test_rlox_explains_keys_of_sweeps_and_single_runs_in_the_wrong_command(
    cli: Cli, tmp_path: Path, args: tuple[str, ...], says: str
) -> None:
    result = cli(*args)
    assert_explained(result, says, tmp_path)
    assert result.err == says


@pytest.mark.parametrize("value", ["0", "1025", "-1", "two", "1.5", "null", "1,2", ""])
def test_rlox_sweep_refuses_an_invalid_number_of_workers(cli: Cli, tmp_path: Path, value: str) -> None:
    result = cli("sweep", "seed=1,2", f"sweep.workers={value}")
    assert_explained(result, "sweep.workers", tmp_path)
    assert "expected" in result.err


def test_misspelled_worker_options_get_a_hint_at_sweep_workers(cli: Cli, tmp_path: Path) -> None:
    for wrong in ("sweep.worker=2", "workers=2", "n_jobs=2", "--workers=2"):
        assert_explained(cli("sweep", "seed=1,2", wrong), "sweep.workers", tmp_path)


@pytest.mark.parametrize("command", ["train", "sweep"])
def test_the_help_of_train_and_sweep_describes_sweep_workers(cli: Cli, command: str) -> None:
    out = " ".join(cli(command, "--help").out.split())
    assert "sweep.workers=1 processes that run jobs in parallel on this machine; in [1, 1024]" in out


def test_sweep_workers_is_not_a_key_of_a_jobs_config(cli: Cli) -> None:
    result = cli("sweep", "--cfg", "job", "sweep.workers=3")
    assert (result.code, "sweep" in result.out) == (0, False)


def task_for(*configs: dict[str, Any], folder: Path = Path("sweep")) -> TrainTask:
    """Return the task of a sweep with these configurations."""
    task = TrainTask(Call(COMMAND, [], Signals()))
    planned = [PlannedJob([f"seed={c['seed']}"], make_run(c)) for c in configs]
    task.prepare(SweepPlan(folder, planned, False))
    return task


@pytest.mark.parametrize(
    ("cores", "threads", "says"),
    [
        (
            4,
            2,
            "rlox sweep: warning: 3 workers with torch_threads=2 are 6 threads for 4 CPUs, which slows "
            "all of them down; give torch_threads=1 or sweep.workers=2\n",
        ),
        (
            1,
            1,
            "rlox sweep: warning: 3 workers with torch_threads=1 are 3 threads for 1 CPU, which slows "
            "all of them down; give sweep.workers=1\n",
        ),
        (6, 2, ""),
    ],
)
def test_more_threads_than_cpus_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cores: int,
    threads: int,
    says: str,
) -> None:
    monkeypatch.setattr(provenance, "cores", lambda: cores)
    workers = launcher.WorkersLauncher(3)
    workers.task = task_for({"seed": 1}, {"seed": 2, "torch_threads": threads})
    workers._warn_of_threads(3)
    assert capsys.readouterr().err == says


def test_workers_share_the_cpus_unless_somebody_has_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RLOX_THREADS", raising=False)
    monkeypatch.delenv("RAYON_NUM_THREADS", raising=False)
    monkeypatch.setattr(launcher, "num_threads", lambda: 7)
    assert launcher.shared_thread_environment(2)["RLOX_THREADS"] == "3"
    assert launcher.shared_thread_environment(9)["RLOX_THREADS"] == "1"
    monkeypatch.setenv("RAYON_NUM_THREADS", "5")
    assert "RLOX_THREADS" not in launcher.shared_thread_environment(2)


# The worker pool, with workers that train nothing


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlox_cli.sweeps.worker_process.START_SCRIPT", FAKE)


def crew_of(size: int, signals: Signals, total: int) -> WorkerPool:
    def died(task: Task, how: str) -> dict[str, Any]:
        return {"status": "killed", "code": 1, "message": how, "folder": None}

    return WorkerPool(size, {}, Display(total, ()), signals, died, os.environ)


def tasks(*seeds: int) -> list[Task]:
    return [Task(number, [f"seed={seed}"]) for number, seed in enumerate(seeds)]


def children() -> list[str]:
    """Return the child processes that nobody has waited for."""
    me = os.getpid()
    return Path(f"/proc/{me}/task/{me}/children").read_text().split()


def test_a_worker_that_is_killed_takes_only_its_job_with_it(
    fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before = children()
    ended = crew_of(2, Signals(), 5).run(tasks(1, 3, 2, 3, 5))
    shown = capsys.readouterr()
    assert [ended[n]["status"] for n in range(5)] == ["done", "killed", "done", "killed", "done"]
    assert ended[1]["message"] == "its process was ended by SIGKILL (perhaps out of memory)"
    assert shown.out.splitlines().count("[2/5] started seed=3") == 1
    assert "[5/5] done" in shown.out.splitlines()
    assert shown.err.splitlines().count("[1/5] a word aside") == 1
    assert "[1/5] not an event" in shown.err.splitlines()
    assert children() == before


def test_the_display_prints_started_when_a_job_trains(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display(3, ())
    for number in range(3):
        shown.on_started(number, [f"seed={number}"])
    assert capsys.readouterr().out == ""  # their processes are still importing
    for about in ("begun", "begun", "ended"):
        shown.on_event(0, {"event": "said", "about": about, "text": "more of it"})
    shown.on_event(1, {"event": "said", "about": "skipped", "text": "done before: there"})
    shown.on_ended(1, {"status": "skipped", "code": 0, "message": "", "folder": "there"})
    shown.on_ended(2, {"status": "failed", "code": 1, "message": "no such robot", "folder": None})
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "[1/3] started seed=0",
        "[2/3] done before: there",
        "[3/3] seed=2",
    ]
    assert told.err == "[3/3] failed: no such robot\n"


def test_a_signal_stops_every_worker_and_nothing_more_begins(
    fake: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before, sent = children(), []

    class Sending(Display):
        def on_progress(self, number: int, snapshot: Any) -> None:
            if number == 1 and not sent:
                sent.append(number)
                os.kill(os.getpid(), signal.SIGTERM)

    with Signals() as signals:
        crew = crew_of(2, signals, 4)
        crew.display = Sending(4, ())
        ended = crew.run(tasks(4, 4, 1, 2))
    assert signals.received_signal == signal.SIGTERM
    assert {n: outcome["status"] for n, outcome in ended.items()} == {0: "killed", 1: "killed"}
    assert "[3/4]" not in capsys.readouterr().out
    assert children() == before


def test_a_sweep_continues_with_fewer_workers_if_the_system_refuses_more(
    fake: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rlox_cli.sweeps import worker_pool

    left = [1]

    def hire(*args: Any) -> Any:
        if not left:
            raise OSError(11, "Resource temporarily unavailable")
        left.pop()
        return crew_worker(*args)

    crew_worker = worker_pool.WorkerProcess
    monkeypatch.setattr(worker_pool, "WorkerProcess", hire)
    ended = crew_of(3, Signals(), 3).run(tasks(1, 2, 5))
    assert [ended[n]["status"] for n in range(3)] == ["done"] * 3
    says = "no more than 1 workers can be started: Resource temporarily unavailable"
    assert capsys.readouterr().err.splitlines().count(says) == 1


DRIVER = """
import sys
from pathlib import Path
from rlox_cli.sweeps import worker_process
worker_process.START_SCRIPT = Path(sys.argv[1])
from rlox_cli.main import main
sys.exit(main(sys.argv[2:]))
"""


def on_a_terminal(folder: Path, columns: int, **environment: str) -> Terminal:
    """Run a sweep of two parallel jobs on a terminal with `columns` columns."""
    args = ["-c", DRIVER, str(FAKE), "sweep", "seed=1,2", "sweep.workers=2"]
    return Terminal(args, folder, columns, program=sys.executable, **environment)


def test_a_terminal_has_a_live_line_for_each_job_that_runs(tmp_path: Path) -> None:
    line = r"\[{0}/2\]  seed={0}  steps 60/100  return 12\.5  50 steps/s  left 0:01"
    lines = f"{line.format(1)}\r\n{line.format(2)}"
    gate = tmp_path / "gate"
    with on_a_terminal(tmp_path, 100, FAKE_GATE=str(gate)) as terminal:
        terminal.until_match(lines)
        gate.touch()
        assert terminal.end() == 1  # nothing was trained
        text = terminal.text
    frames = text.split("\x1b[1A\x1b[2K")  # up a line and clear it: the next text replaces it
    both = [f for f in frames if re.fullmatch(f"{lines}\r\x1b\\[2K", f)]
    assert both, text
    assert "[1/2] seed=1: done\r\n" in text and "[2/2] seed=2: done\r\n" in text
    assert "[1/2] started" not in text


def test_narrow_and_colourless_terminals_have_lines_that_stay(tmp_path: Path) -> None:
    for columns, environment in ((50, {}), (100, {"NO_COLOR": "1"})):
        with on_a_terminal(tmp_path, columns, **environment) as terminal:
            assert terminal.end() == 1  # nothing was trained
            text = terminal.text
        assert "[1/2] started seed=1\r\n" in text
        assert "\x1b[" not in text


# Two sweeps in one folder


def begun(folder: Path, seed: int) -> tuple[Path, Any]:
    """Return the folder and the configuration of a stopped job."""
    config = make_run({"seed": seed})
    with RunFolder.create(config, folder / f"0_seed-{seed}") as run:
        run.start(config, {})
        run.write_status("killed", "signal")
    return run.path, config


def test_a_job_that_another_sweep_has_claimed_is_left_to_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    config = make_run({"seed": 1})
    job = jobs.Job([], tmp_path / "sweep", 0, None, identity=identity(config))
    with jobs.claim(job) as first, jobs.claim(job) as second:
        assert (first, second) == (True, False)
    with jobs.claim(job) as again:
        assert again
    assert list((tmp_path / "sweep").iterdir()) == []


def test_a_sweep_that_loses_the_race_for_a_job_leaves_it_to_the_winner(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = begun(tmp_path / "sweep", 1)
    winner = RunFolder.reopen(folder)
    monkeypatch.setattr(jobs, "find_busy_dir", lambda job: None)  # it looked before the winner began
    monkeypatch.setattr(jobs, "find_interrupted", lambda job: folder)
    result = cli("sweep", "seed=1", PLACE)
    winner._release()
    assert (result.code, result.err) == (0, "")
    assert "running in another process" in result.out
    assert read_status(folder)["status"] == "killed"


def test_a_job_that_cannot_be_resumed_names_no_missing_traceback(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = begun(tmp_path / "sweep", 1)
    (folder / "checkpoints" / "step-000000000064").mkdir(parents=True)
    monkeypatch.setattr(jobs, "find_interrupted", lambda job: folder)
    monkeypatch.setattr(resume, "identity", lambda config: ANY)  # as if the folder belonged to this job
    result = cli("sweep", "seed=1", PLACE)
    assert result.code == 1
    assert "has only damaged checkpoints: step-" in result.err
    assert "log.txt" not in result.err


def test_a_dry_sweep_is_checked_by_workers_and_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", "seed=1,2", "dry_run=true", "sweep.workers=2")
    assert (result.code, result.out.count("] dry run: ppo on CartPole-v1")) == (0, 2)
    assert list(tmp_path.iterdir()) == []
