"""Tests that a sweep makes a folder for each job, skips done jobs, and names failed jobs and continues."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli

from rlox.configs import RunConfig, make_run
from rlox.runs import progress
from rlox_cli.main import main
from rlox_cli.runs.identity import identity, job_slug
from rlox_cli.runs.run_folder import RunFolder, read_status
from rlox_cli.runs.summary import format_number
from rlox_cli.shell.exit_codes import FAILED
from rlox_cli.sweeps.sweep import PlannedJob, SweepPlan, finish_sweep, length_warnings

PLACE = "hydra.sweep.dir=sweep"
BRIEF = (*TINY, "total_steps=128", "eval.episodes=1")


def job_names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir())


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def sweep_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a sweep of two seeds once for all tests that begin with one."""
    folder = tmp_path_factory.mktemp("done")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["sweep", *BRIEF, "seed=1,2", f"hydra.sweep.dir={folder}"]) == 0
    return folder


@pytest.fixture
def swept(cli: Cli, sweep_template: Path) -> Path:
    """Copy the finished sweep to `sweep` in the current folder."""
    return Path(shutil.copytree(sweep_template, "sweep", symlinks=True)).absolute()


@pytest.mark.parametrize("command", [("train", "-m"), ("train", "--multirun"), ("sweep",)])
def test_several_values_are_several_jobs(cli: Cli, command: tuple[str, ...]) -> None:
    result = cli(*command, "seed=3,4", "env.n_envs=2", "dry_run=true")
    assert result.code == 0, result.err
    assert [line.split()[1] for line in result.out.splitlines() if line[0] == "["] == [
        "seed=3",
        "seed=4",
    ]


def test_each_job_gets_a_folder_and_the_sweep_a_summary(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", *BRIEF, "env=CartPole-v1,Acrobot-v1", "seed=3,4")
    assert result.code == 0, result.err
    (folder,) = (tmp_path / "runs" / "sweeps").iterdir()
    heads = [name.rsplit("_", 1)[0] for name in job_names(folder)]
    assert heads == [
        "0_env-CartPole-v1_seed-3",
        "1_env-CartPole-v1_seed-4",
        "2_env-Acrobot-v1_seed-3",
        "3_env-Acrobot-v1_seed-4",
    ]
    table = rows(folder)
    assert [(r["env"], r["seed"], r["status"]) for r in table][:2] == [
        ("CartPole-v1", "3", "done"),
        ("CartPole-v1", "4", "done"),
    ]
    first = json.loads((folder / table[0]["job"] / "result.json").read_text())
    assert float(table[0]["score"]) == first["score"]
    assert "| ppo | CartPole-v1 | 2 |" in (folder / "summary.md").read_text()
    assert "4 of 4 jobs done" in result.out


def test_jobs_already_done_are_skipped_when_the_folder_is_given_again(cli: Cli, swept: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in swept.glob("*/result.json")}
    assert len(before) == 2
    result = cli("sweep", *BRIEF, "seed=0,1,2", PLACE)
    assert result.code == 0
    assert "3 of 3 jobs done, 2 of them before" in result.out
    assert all(p.stat().st_mtime_ns == time for p, time in before.items())
    assert len(job_names(swept)) == 3


def test_a_job_that_did_not_finish_is_done_again_and_kept_aside(cli: Cli, swept: Path) -> None:
    broken = next(swept.glob("1_*"))
    status = read_status(broken) | {"status": "failed"}
    (broken / "status.json").write_text(json.dumps(status))
    assert cli("sweep", *BRIEF, "seed=1,2", PLACE).code == 0
    assert read_status(broken)["status"] == "done"
    assert read_status(broken.with_name(f"{broken.name}.attempt1"))["status"] == "failed"
    assert len(rows(swept)) == 2


def test_an_interrupted_job_resumes_and_equals_an_uninterrupted_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: Any, now: Any) -> None:
        if now.now == 256:
            os.kill(os.getpid(), signal.SIGINT)

    longer = (*TINY, "total_steps=512", "eval.episodes=1")
    with monkeypatch.context() as patch:
        patch.setattr(progress.LineReporter, "__call__", interrupt)
        assert cli("sweep", *longer, "seed=1,2", PLACE).code == 130
    (stopped,) = (p for p in (tmp_path / "sweep").iterdir() if p.is_dir())
    again = cli("sweep", *longer, "seed=1,2", PLACE)
    assert again.code == 0, again.err
    assert "resumed at step 256 of 512 (exact)" in again.out
    assert "2 of 2 jobs done" in again.out
    assert len(job_names(tmp_path / "sweep")) == 2
    assert cli("train", *longer, "seed=1", "hydra.run.dir=whole").code == 0
    whole = tmp_path / "whole"
    for name in ("result.json", "metrics.jsonl"):
        assert (stopped / name).is_file() and (whole / name).is_file()
    scores = [json.loads((run / "result.json").read_text())["episodes"] for run in (stopped, whole)]
    assert scores[0] == scores[1]
    assert (stopped / "episodes.jsonl").read_bytes() == (whole / "episodes.jsonl").read_bytes()


def test_an_interrupted_job_without_a_whole_checkpoint_is_done_again(cli: Cli, swept: Path) -> None:
    broken = next(swept.glob("1_*"))
    (broken / "status.json").write_text(json.dumps(read_status(broken) | {"status": "killed"}))
    for manifest in broken.glob("checkpoints/step-*/manifest.json"):
        manifest.write_text("{}")
    again = cli("sweep", *BRIEF, "seed=1,2", PLACE)
    assert again.code == 0, again.err
    assert read_status(broken)["status"] == "done"
    assert read_status(broken.with_name(f"{broken.name}.attempt1"))["status"] == "killed"


def test_a_job_that_another_process_runs_is_left_to_it(cli: Cli, swept: Path, tmp_path: Path) -> None:
    busy = next(swept.glob("1_*"))
    (busy / "status.json").write_text(json.dumps(read_status(busy) | {"status": "running"}))
    elsewhere = RunFolder(busy)
    elsewhere._acquire()
    result = cli("sweep", *BRIEF, "seed=1,2", PLACE)
    assert f"running in another process: {busy.relative_to(tmp_path)}" in result.out
    assert read_status(busy)["status"] == "running"
    elsewhere._release()


def test_a_failed_job_is_named_and_the_others_go_on(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", *TINY, "env=Breaking-v0,CartPole-v1", PLACE)
    assert result.code == 1
    assert "1 of 2 jobs done" in result.out
    assert "failed: 0_env-Breaking-v0" in result.out
    found = {r["job"].split("_")[1]: (r["status"], r["reason"]) for r in rows(tmp_path / "sweep")}
    assert found["env-CartPole-v1"][0] == "done"
    assert "the motor burnt out" in found["env-Breaking-v0"][1]


@pytest.mark.parametrize(
    ("words", "told", "job"),
    [
        (
            ("algo=dqn,ppo", "env=CartPole-v1,Pendulum-v1"),
            "dqn needs Discrete actions",
            "algo=dqn env=Pendulum-v1",
        ),
        (("env=CartPole-v1,DictObs-v0",), "flatten_observation", "env=DictObs-v0"),
        (
            ("env=CartPole-v1", "algo.encoder_features=null,64"),
            "algo.encoder_features=64: CartPole-v1 has no image",
            "algo.encoder_features=64",
        ),
    ],
)
def test_a_combination_that_cannot_learn_is_refused_before_the_first_job(
    words: tuple[str, ...], told: str, job: str, cli: Cli, tmp_path: Path
) -> None:
    result = cli("sweep", *words, "tuned=null", "seed=1", PLACE)
    assert result.code == 2
    assert told in result.err
    assert re.search(rf"in the job: .*{job}", result.err)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_ends_the_whole_sweep_and_the_summary_is_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: Any, now: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(progress.LineReporter, "__call__", interrupt)
    result = cli("sweep", *TINY, "seed=1,2,3", "total_steps=1e6", PLACE)
    assert result.code == 143
    ended = [(r["seed"], r["status"]) for r in rows(tmp_path / "sweep")]
    assert ended == [("1", "killed"), ("2", "not started"), ("3", "not started")]
    assert "0 of 3 jobs done" in result.out


def test_a_dry_sweep_checks_every_job_and_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", "seed=1,2", "dry_run=true")
    assert (result.code, result.out.count("dry run: ")) == (0, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_preset_can_name_the_jobs_of_a_sweep(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "conf" / "exp").mkdir(parents=True)
    text = "# @package _global_\nhydra: {sweeper: {params: {seed: 'range(0,2)'}}}\n"
    (tmp_path / "conf" / "exp" / "two.yaml").write_text(text)
    result = cli("sweep", "--config-dir", str(tmp_path / "conf"), "exp=two", "dry_run=true")
    assert (result.code, result.out.count("dry run: ")) == (0, 2)


def test_a_grown_sweep_recognises_finished_jobs_of_an_older_schema(cli: Cli, tmp_path: Path) -> None:
    one = (*TINY, "total_steps=128", "seed=1", PLACE)
    assert cli("sweep", *one, "algo.gamma=0.9").code == 0
    (before,) = (tmp_path / "sweep").glob("*/config.yaml")
    text = before.read_text()
    assert "log_std_init" in text  # as if a version without this key had saved it
    kept = [line for line in text.splitlines() if "log_std_init" not in line]
    before.write_text("\n".join(kept) + "\n")
    result = cli("sweep", "algo.gamma=0.8,0.9", *one)
    assert result.code == 0, result.err
    assert f"done before: {before.parent.relative_to(tmp_path)}" in result.out
    assert "2 of 2 jobs done, 1 of them before" in result.out
    assert len(job_names(tmp_path / "sweep")) == 2


def test_only_runs_that_differ_in_nothing_but_the_seed_are_averaged(cli: Cli, tmp_path: Path) -> None:
    given = (*BRIEF, "algo.gamma=0.8,0.9", "seed=1,2", PLACE)
    result = cli("sweep", *given)
    assert result.code == 0, result.err
    summary = (tmp_path / "sweep" / "summary.md").read_text()
    for gamma in ("0.8", "0.9"):
        scores = [float(r["score"]) for r in rows(tmp_path / "sweep") if f"gamma-{gamma}" in r["job"]]
        mean, low, high = sum(scores) / 2, min(scores), max(scores)
        # The IQM of two scores is their mean. Each score comes twice in a quarter of the bootstrap draws.
        said, least, most = map(format_number, (mean, low, high))
        both = f"IQM {said} (95% CI {least} to {most}), mean {said}, standard deviation "
        assert f"ppo on CartPole-v1, algo.gamma={gamma}: {both}" in result.out
        assert f"| ppo | CartPole-v1 | 2 | {mean:.4g} | {low:.4g} | {high:.4g} | {mean:.4g} |" in (summary)
        assert f"| algo.gamma={gamma} |" in summary


def plan_of(folder: Path, *configs: RunConfig) -> SweepPlan:
    return SweepPlan(folder, [PlannedJob([f"seed={c.seed}"], c) for c in configs], False)


def test_jobs_that_a_launcher_never_started_are_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = [make_run({"seed": seed}) for seed in (1, 2)]
    assert finish_sweep(plan_of(tmp_path, *configs), []) == FAILED
    assert "0 of 2 jobs done" in capsys.readouterr().out
    assert [r["status"] for r in rows(tmp_path)] == ["not started"] * 2
    with RunFolder.create(configs[0], tmp_path / "0_seed-1") as folder:
        folder.start(configs[0], {})
        folder.write_status("done")
    assert finish_sweep(plan_of(tmp_path, *configs), []) == FAILED
    assert finish_sweep(plan_of(tmp_path, configs[0]), []) == 0  # another process did it
    assert finish_sweep(SweepPlan(tmp_path / "empty", None, False), []) == FAILED
    (tmp_path / "empty").mkdir()
    assert finish_sweep(SweepPlan(tmp_path / "empty", None, False), []) == FAILED


def test_the_summary_counts_steps_in_the_unit_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_run({"seed": 1})
    for name, unit in (("0_a", "env_steps"), ("1_b", "updates")):
        monkeypatch.setattr(type(config.algo), "unit", unit)
        with RunFolder.create(config, tmp_path / name) as folder:
            folder.start(config, {})
            folder.update_step(64)
            folder.write_status("killed", "signal")
        finish_sweep(SweepPlan(tmp_path, None, False), [])
        last = rows(tmp_path)[-1]
        steps = "64" if unit == "env_steps" else ""
        assert (last["unit"], last["steps"], last["env_steps"]) == (unit, "64", steps)
        assert (last["algo"], last["env"], last["seed"]) == ("ppo", "CartPole-v1", "1")


def test_the_identity_of_a_job_ignores_its_folder() -> None:
    config = make_run({"seed": 1})
    assert identity(config) == identity(make_run({"run_root": "elsewhere", "dry_run": True, "seed": 1}))
    assert identity(config) != identity(make_run({"seed": 2}))


def test_job_slug_makes_short_folder_names_without_special_characters() -> None:
    assert job_slug(["env=CartPole-v1", "seed=1"]) == "env-CartPole-v1_seed-1"
    assert job_slug([]) == "defaults"
    assert job_slug(["env=a/b,c d"]) == "env-a-b-c-d"
    assert len(job_slug([f"algo.learning_rate=0.{n}" for n in range(50)])) <= 100
    assert job_slug(["seed=1", "total_steps=5"], {"total_steps=5"}) == "seed-1"


def test_length_warnings_report_jobs_with_different_rounded_totals() -> None:
    def run(n_steps: int, total: int = 10_000) -> RunConfig:
        algo = {"name": "ppo", "n_steps": n_steps}
        return make_run({"algo": algo, "env": {"n_envs": 8}, "total_steps": total})

    (line,) = length_warnings([run(256), run(1024), run(2048)])
    assert line == (
        "total_steps=10000 is 10,240 to 16,384 steps, because batch sizes differ and totals are rounded "
        "up to whole batches; total_steps=16384 gives all jobs the same length"
    )
    (far,) = length_warnings([run(250), run(1023)])
    assert "gives all jobs the same length" not in far
    assert not list(length_warnings([run(256), run(256)]))
    assert not list(length_warnings([run(250, 100_000), run(256, 100_000)]))  # 0.4% longer
    assert not list(length_warnings([run(256, 16_384), run(1024, 16_384), run(1024, 8192)]))


def test_a_sweep_says_which_totals_its_jobs_come_to(cli: Cli) -> None:
    words = ("tuned=null", "dry_run=true", "env.n_envs=4", "algo.batch_size=16")
    result = cli("sweep", *words, "algo.n_steps=16,48", "total_steps=128")
    assert result.code == 0, result.err
    assert "total_steps=128 is 128 to 192 steps" in result.out
    assert "total_steps=192 gives all jobs the same length" in result.out
