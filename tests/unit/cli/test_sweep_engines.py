"""Tests that joblib, Ray and submitit give the numbers of one process and the true status of every job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.fingerprint import difference, fingerprint
from faults.slurm import commands
from helpers.cli import TINY, Cli, assert_explained
from helpers.waiting import until

from rlox.extras import install_command
from rlox_cli.runs.run_folder import is_locked, read_status
from rlox_cli.runs.signals import Signals
from rlox_cli.sweeps.display import Display
from rlox_cli.sweeps.remote_job import RemoteJob, has_exited, process_identity
from rlox_cli.sweeps.remote_job_runner import JobEventDir, ProcessExit, RemoteJobRunner
from rlox_cli.sweeps.worker_pool import Task

from .test_sweep import job_names, rows
from .test_sweep_workers import ENVIRONMENTS

ENGINES = ("joblib", "ray", "submitit_local", "submitit_slurm")
ROBOTS = (
    ENVIRONMENTS
    + """
import os, signal


class Dying(Breaking):
    def step(self, action):
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


gym.register("Dying-v0", Dying)
"""
)
PREEMPTED = """
import os, pathlib, subprocess

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Walk(gym.Env):
    observation_space = spaces.Box(0.0, 1.0, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, signals):
        self.signals, self.at = signals, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.at += 1
        if self.at == 50 and "SLURM_ARRAY_JOB_ID" in os.environ:
            preempt(self.signals.split("+"))
        reward = float(action) + self.np_random.random()
        return np.full(1, self.at % 7 / 7, np.float32), reward, self.at % 7 == 0, False, {}

    def save_state(self):
        return {"at": self.at}

    def load_state(self, state):
        self.at = state["at"]


def preempt(signals):
    job = "_".join(os.environ[f"SLURM_ARRAY_{what}_ID"] for what in ("JOB", "TASK"))
    told = pathlib.Path(f"told-{job}")
    if not told.exists():
        told.touch()
        for name in signals:
            subprocess.run(["scancel", job, "--signal", name], check=True)


gym.register("Walk-v0", Walk)
"""
ENVS = "env=robots:Burning-v0,robots:Never-v0,robots:Dying-v0,CartPole-v1"


@pytest.fixture(autouse=True)
def slurm(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a pretended Slurm and return its folder."""
    folder = commands(tmp_path_factory.mktemp("slurm"))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the jobs whose process survives, one after another in one process."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "robots.py").write_text(ROBOTS)
    kept = [ENVS.replace("robots:Dying-v0,", ""), "seed=1", "hydra.sweep.dir=sweep"]
    command = [sys.executable, "-m", "rlox_cli.main", "sweep", *TINY, *kept]
    assert subprocess.run(command, cwd=folder, capture_output=True).returncode == 1
    return folder / "sweep"


def numbers(sweep: Path) -> dict[str, Any]:
    """Return the results of the jobs, by their names without the number."""
    found = {}
    for run in sweep.glob("[0-9]*_*"):
        if (run / "result.json").exists():
            result = json.loads((run / "result.json").read_text())
            lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
            timeless = [
                {k: v for k, v in line.items() if k != "seconds" and not k.startswith("time/")}
                for line in lines
            ]
            episodes = (run / "episodes.jsonl").read_bytes()
            found[run.name.split("_", 1)[1]] = (
                result["score"],
                result["episodes"],
                timeless,
                episodes,
            )
    return found


@pytest.mark.parametrize(
    "engine", [e if e == "joblib" else pytest.param(e, marks=pytest.mark.slow) for e in ENGINES]
)
def test_a_launcher_gives_the_numbers_of_one_process_and_each_jobs_status(
    engine: str, alone: Path, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "robots.py").write_text(ROBOTS)
    given = [*TINY, ENVS, "seed=1", "hydra.sweep.dir=sweep", f"hydra/launcher={engine}"]
    command = [sys.executable, "-m", "rlox_cli.main", "sweep", *given]
    first = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert first.returncode == 1, first.stderr
    assert "Traceback" not in first.stdout + first.stderr
    sweep = tmp_path / "sweep"
    assert numbers(sweep) == numbers(alone)
    assert len(numbers(sweep)) == 1
    told = {row["job"].split("_")[1]: (row["status"], row["reason"]) for row in rows(sweep)}
    assert told["env-CartPole-v1"][0] == "done"
    assert "the motor burnt out" in told["env-robots-Burning-v0"][1]
    assert "no such robot" in told["env-robots-Never-v0"][1]
    assert told["env-robots-Dying-v0"][0] == "killed"
    assert "1 of 4 jobs done" in first.stdout
    assert f"to go on: rlox sweep {' '.join(TINY)} env=" in first.stdout
    assert "[4/4] started env=CartPole-v1" in first.stdout.splitlines()
    assert not list(sweep.glob(".jobs-*"))
    # no process starts for a done job: it would only spend time on the import of torch
    again = cli("sweep", *TINY, "env=CartPole-v1", *given[len(TINY) + 1 :])
    assert "1 of 3 jobs done, 1 of them before" in again.out
    assert "started" not in again.out


@pytest.mark.parametrize(
    ("engine", "number"),
    [
        ("joblib", signal.SIGKILL),
        pytest.param("submitit_local", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("joblib", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_runs_are_saved_when_their_sweep_is_stopped_or_killed(
    engine: str, number: int, tmp_path: Path
) -> None:
    given = [*TINY, "seed=1,2", "hydra.sweep.dir=sweep", f"hydra/launcher={engine}"]
    if (engine, number) == ("joblib", signal.SIGINT):
        given.append("hydra.launcher.n_jobs=1")  # one job has to wait
    command = [sys.executable, "-m", "rlox_cli.main", "sweep", *given, "total_steps=1e7"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        while "steps " not in process.stdout.readline():
            assert process.poll() is None
        os.killpg(process.pid, number) if number == signal.SIGINT else process.kill()
        out = process.stdout.read()  # reads until every process has closed it
    runs = [p.parent for p in (tmp_path / "sweep").glob("[0-9]*/status.json")]
    assert runs
    assert {read_status(run)["status"] for run in runs} == {"killed"}
    assert not any(is_locked(run) for run in runs)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "0 of 2 jobs done" in out and "to go on: rlox sweep " in out


@pytest.mark.slow
def test_a_preempted_slurm_job_resumes_and_equals_an_uninterrupted_run(tmp_path: Path, slurm: Path) -> None:
    (tmp_path / "walks.py").write_text(PREEMPTED)
    # some clusters send SIGTERM before the signal that submitit requests
    signals = "env.kwargs.signals=SIGUSR2,SIGTERM+SIGUSR2"
    given = [*TINY, "env=walks:Walk-v0", "env.n_envs=2", signals, "seed=1"]
    out = {}
    for place, more in (("slurm", ["hydra/launcher=submitit_slurm"]), ("alone", [])):
        command = [sys.executable, "-m", "rlox_cli.main", "sweep", *given, *more]
        done = subprocess.run(
            [*command, f"hydra.sweep.dir={place}"], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        out[place] = done.stdout
    assert out["slurm"].count("it was preempted or reached its time limit: it is resubmitted") == 2
    told = sorted(path.name.removeprefix("told-") for path in tmp_path.glob("told-*"))
    states = (slurm / "log").read_text().splitlines()
    assert len(told) == 2
    for job in told:
        seen = [line.split()[1] for line in states if line.split()[0] == job]
        assert seen == ["PENDING", "RUNNING", "REQUEUED", "PENDING", "RUNNING", "COMPLETED"]
    for run in sorted((tmp_path / "slurm").glob("[0-9]*_*")):
        (again,) = run.glob(".hydra/resume*/provenance.json")
        step = json.loads(again.read_text())["resumed_at"]
        assert 0 < step < 256
        own, other = fingerprint(run), fingerprint(tmp_path / "alone" / run.name)
        assert set(own["folders"]) - set(other["folders"]) == {f"step-{step:012}"}
        assert difference(own, other) == ["folders"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            ("joblib", "hydra.launcher.verbose=3"),
            "hydra.launcher.verbose",
        ),
        (("joblib", "hydra.launcher.n_jobs=0"), "hydra.launcher.n_jobs=0: expected 1 or more"),
        (("joblib", "hydra.launcher.n_jobs=abc"), "hydra.launcher.n_jobs=abc: expected 1 or more"),
        (("joblib", "+hydra.launcher.n_job=2"), "has no such setting; did you mean 'n_jobs'?"),
        (("submitit_local", "hydra.launcher.mem_gb=abc"), "hydra.launcher.mem_gb=abc: expected"),
        (
            ("submitit_local", "hydra.launcher.nodes=2"),
            "hydra.launcher.nodes=2: a job is one process",
        ),
        (
            ("submitit_slurm", "hydra.launcher.max_num_timeout=-1"),
            "hydra.launcher.max_num_timeout=-1: expected 0 or more",
        ),
        (("ray", "+hydra.launcher.rai=2"), "has no such setting; did you mean 'ray'?"),
        (
            ("ray", "+hydra.launcher.ray.init.addr=auto"),
            "hydra.launcher.ray.init.addr: hydra/launcher=ray has no such setting; did you mean 'address'?",
        ),
        (
            ("ray", "+hydra.launcher.ray.remote.max_retries=3"),
            "hydra.launcher.ray.remote.max_retries: hydra/launcher=ray has no such setting",
        ),
        (("ray", "hydra.launcher.ray.init=2"), "hydra.launcher.ray.init=2: expected a mapping"),
        (
            ("ray", "hydra.launcher.ray.init.num_cpus=two"),
            "hydra.launcher.ray.init.num_cpus=two: expected 1 or more",
        ),
        (
            ("ray", "hydra.launcher.ray.remote.num_cpus=-1"),
            "hydra.launcher.ray.remote.num_cpus=-1: expected a number of 0 or more",
        ),
        (
            ("ray", "hydra.launcher.ray.remote.num_gpus=1.5"),
            "hydra.launcher.ray.remote.num_gpus=1.5: expected a number from 0 to 1, or a whole number "
            "above 1",
        ),
        (
            ("ray", "hydra.launcher.ray.remote.num_cpus=5000"),
            "hydra.launcher.ray.remote.num_cpus=5000: Ray has ",
        ),
    ],
)
def test_rlox_sweep_refuses_invalid_and_unsupported_launcher_settings(
    cli: Cli, tmp_path: Path, given: tuple[str, str], says: str
) -> None:
    result = cli("sweep", "seed=1,2", f"hydra/launcher={given[0]}", given[1])
    assert_explained(result, says, tmp_path)


def test_rlox_sweep_refuses_num_cpus_for_an_existing_ray_cluster(cli: Cli, tmp_path: Path) -> None:
    at = ("hydra/launcher=ray", "hydra.launcher.ray.init.address=elsewhere:6379")
    result = cli("sweep", "seed=1,2", *at, "hydra.launcher.ray.init.num_cpus=4")
    says = "hydra.launcher.ray.init.num_cpus=4: the cluster at elsewhere:6379 sets its own"
    assert_explained(result, says, tmp_path)


def test_without_slurm_its_launcher_says_what_is_missing(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = cli("sweep", "seed=1,2", "hydra/launcher=submitit_slurm")
    assert_explained(result, "hydra/launcher=submitit_slurm: sbatch is not installed here", tmp_path)


@pytest.mark.parametrize("module", ["joblib", "ray", "submitit"])
def test_a_library_that_is_missing_is_told_with_what_installs_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    launcher = "submitit_local" if module == "submitit" else module
    result = cli("sweep", "seed=1,2", f"hydra/launcher={launcher}")
    assert_explained(result, install_command(module), tmp_path)
    assert len(result.err.splitlines()) == 1


# The remote job runner, with an engine that starts no process


class Pretended:
    """An engine whose processes send given events."""

    grace_seconds = 0.0

    def __init__(self, box: Path, letters: dict[int, list[dict[str, Any]]]) -> None:
        self.box, self.letters, self.left = box, letters, list(letters)
        self.recalled = False

    def submit(self, jobs: Any) -> None:
        for number, events in self.letters.items():
            text = "".join(json.dumps(event) + "\n" for event in events)
            (self.box / f"{number}.jsonl").write_text(text)

    def poll_exits(self) -> list[ProcessExit]:
        over, self.left = self.left, []
        return [ProcessExit(number, "its process ended as LOST") for number in over]

    def cancel_pending(self) -> None:
        self.recalled = True

    def close(self, left: Any) -> None:
        assert not list(left)


def started() -> dict[str, Any]:
    return {"event": "started", **process_identity()}


def ended(status: str) -> dict[str, Any]:
    outcome = {"status": status, "code": 0, "message": "", "folder": None}
    return {"event": "ended", "outcome": outcome, "last": False}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[JobEventDir]:
    yield JobEventDir(tmp_path)


def test_a_job_without_an_end_event_gets_the_message_of_its_engine(box: JobEventDir) -> None:
    letters = {0: [started(), ended("done")], 1: [started()], 2: []}
    engine = Pretended(box.path, letters)

    def died(task: Task, how: str) -> dict[str, Any]:
        return {"status": "killed", "code": 1, "message": how, "folder": None}

    desk = RemoteJobRunner(engine, box, Display(3, ()), Signals(), died)
    found = desk.run([Task(n, [f"seed={n}"]) for n in range(3)], [])
    assert {n: o["status"] for n, o in found.items()} == {0: "done", 1: "killed", 2: "killed"}
    assert found[1]["message"] == "its process ended as LOST"


def test_after_a_signal_only_ended_jobs_have_an_outcome(
    box: JobEventDir,
) -> None:
    engine = Pretended(box.path, {0: [started(), ended("killed")], 1: [], 2: [started()]})
    (letters := engine.letters)[2].append({"event": "left"})
    desk = RemoteJobRunner(engine, box, Display(3, ()), Signals(), lambda task, how: {})
    desk.signals.received_signal = signal.SIGTERM
    found = desk.run([Task(n, [f"seed={n}"]) for n in letters], [])
    assert {n: o["status"] for n, o in found.items()} == {0: "killed"}
    assert engine.recalled
    assert int((box.path / "stop").read_text()) == signal.SIGTERM


def test_a_job_that_leaves_without_an_outcome_counts_as_killed(
    box: JobEventDir,
) -> None:
    engine = Pretended(box.path, {0: [started(), {"event": "left"}], 1: [started(), ended("done")]})

    def died(task: Task, how: str) -> dict[str, Any]:
        return {"status": "killed", "code": 1, "message": how, "folder": None}

    desk = RemoteJobRunner(engine, box, Display(2, ()), Signals(), died)
    found = desk.run([Task(n, [f"seed={n}"]) for n in range(2)], [])
    assert {n: o["status"] for n, o in found.items()} == {0: "killed", 1: "done"}


def test_a_remote_job_of_an_exited_sweep_does_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "0.1"])
    runner = {**process_identity(), "pid": child.pid, "since": "1"}
    assert has_exited(runner)  # another process has its pid
    assert not has_exited({**runner, "host": "elsewhere"})
    assert not has_exited(process_identity())
    RemoteJob(0, [], str(tmp_path), {"runner": runner})()
    assert list(tmp_path.iterdir()) == []
    child.wait()


def test_launchers_of_the_same_names_that_are_installed_are_not_used(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ENGINES:
        result = cli("sweep", "--cfg", "hydra", f"hydra/launcher={name}", "-p", "hydra.launcher")
        assert f"_target_: hydra_plugins.rlox.{name}" in result.out, result.err


def test_a_script_of_the_pretended_slurm_is_run_as_it_was_submitted(
    slurm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SLURM_SLOTS", "1")
    script = tmp_path / "script.sh"
    script.write_text(f"#SBATCH --array=0-1\nsleep 0.2; touch {tmp_path}/$SLURM_ARRAY_TASK_ID")
    subprocess.run(["sbatch", script], check=True)
    script.unlink()  # the second task has not started yet
    states = slurm / "log"
    until(lambda: states.read_text().count("COMPLETED") == 2, "second completed task")
    assert (tmp_path / "0").exists() and (tmp_path / "1").exists()


def test_read_events_waits_for_the_rest_of_a_line(box: JobEventDir) -> None:
    letter = box.path / "0.jsonl"
    letter.write_bytes(b'{"event": "started"}\n{"event": ')
    assert [e["event"] for _, e in box.read_events([0])] == ["started"]
    with letter.open("ab") as file:
        file.write(b'"ended"}\nnot an event\n')
    assert [e["event"] for _, e in box.read_events([0])] == ["ended"]
    assert list(box.read_events([0])) == []


def test_mailboxes_of_sweeps_that_were_killed_are_removed(tmp_path: Path) -> None:
    from rlox_cli.sweeps.remote_job_runner import open_event_dir

    old = tmp_path / ".jobs-old"
    old.mkdir()
    (old / "runner.json").write_text(json.dumps({**process_identity(), "since": "1"}))
    with open_event_dir(tmp_path) as first, open_event_dir(tmp_path) as second:
        assert job_names(tmp_path) == sorted([first.path.name, second.path.name])
    assert list(tmp_path.iterdir()) == []
