"""Sweeps: one folder a job, done jobs skipped, failures named and not contagious."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli

from rlox_cli import progress
from rlox_cli.run_folder import RunFolder, read_status
from rlox_cli.sweep import job_slug

PLACE = "hydra.sweep.dir=sweep"


def job_names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir())


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("command", [("train", "-m"), ("train", "--multirun"), ("sweep",)])
def test_several_values_are_several_jobs(cli: Cli, command: tuple[str, ...]) -> None:
    result = cli(*command, "seed=3,4", "env.n_envs=2", "dry_run=true")
    assert result.code == 0, result.err
    assert [line.split()[1] for line in result.out.splitlines() if line[0] == "["] == [
        "seed=3",
        "seed=4",
    ]


def test_each_job_gets_a_folder_and_the_sweep_a_summary(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", *TINY, "env=CartPole-v1,Acrobot-v1", "seed=3,4")
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


def test_jobs_already_done_are_skipped_when_the_folder_is_given_again(
    cli: Cli, tmp_path: Path
) -> None:
    assert cli("sweep", *TINY, "seed=1,2", PLACE).code == 0
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "sweep").glob("*/result.json")}
    result = cli("sweep", *TINY, "seed=0,1,2", PLACE)
    assert result.code == 0
    assert "3 of 3 jobs done, 2 of them before" in result.out
    assert all(p.stat().st_mtime_ns == time for p, time in before.items())
    assert len(job_names(tmp_path / "sweep")) == 3


def test_a_job_that_did_not_finish_is_done_again_and_kept_aside(cli: Cli, tmp_path: Path) -> None:
    assert cli("sweep", *TINY, "seed=1,2", PLACE).code == 0
    broken = next((tmp_path / "sweep").glob("1_*"))
    status = read_status(broken) | {"status": "failed"}
    (broken / "status.json").write_text(json.dumps(status))
    assert cli("sweep", *TINY, "seed=1,2", PLACE).code == 0
    assert read_status(broken)["status"] == "done"
    assert read_status(broken.with_name(f"{broken.name}.attempt1"))["status"] == "failed"
    assert len(rows(tmp_path / "sweep")) == 2


def test_a_job_that_another_process_runs_is_left_to_it(cli: Cli, tmp_path: Path) -> None:
    assert cli("sweep", *TINY, "seed=1,2", PLACE).code == 0
    busy = next((tmp_path / "sweep").glob("1_*"))
    (busy / "status.json").write_text(json.dumps(read_status(busy) | {"status": "running"}))
    elsewhere = RunFolder(busy)
    elsewhere._acquire()
    result = cli("sweep", *TINY, "seed=1,2", PLACE)
    assert f"running in another process: {busy.relative_to(tmp_path)}" in result.out
    assert read_status(busy)["status"] == "running"
    elsewhere._release()


def test_a_failed_job_is_named_and_the_others_go_on(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", *TINY, "env=Breaking-v0,DictObs-v0,CartPole-v1", PLACE)
    assert result.code == 1
    assert "1 of 3 jobs done" in result.out
    assert "failed: 0_env-Breaking-v0" in result.out
    assert "failed: 1_env-DictObs-v0" in result.out
    found = {r["job"].split("_")[1]: (r["status"], r["reason"]) for r in rows(tmp_path / "sweep")}
    assert found["env-CartPole-v1"][0] == "done"
    assert "the motor burnt out" in found["env-Breaking-v0"][1]
    assert "flatten_observation" in found["env-DictObs-v0"][1]
    assert not list((tmp_path / "sweep").glob("1_*"))


def test_a_signal_ends_the_whole_sweep_and_the_summary_is_written(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: Any, now: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(progress.Lines, "__call__", interrupt)
    result = cli("sweep", *TINY, "seed=1,2,3", "total_steps=1e6", PLACE)
    assert result.code == 143
    assert [(r["seed"], r["status"]) for r in rows(tmp_path / "sweep")] == [("1", "killed")]


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


def test_job_names_are_safe_and_tell_jobs_apart() -> None:
    assert job_slug(["env=CartPole-v1", "seed=1"]) == "env-CartPole-v1_seed-1"
    assert job_slug([]) == "defaults_e3b0c4"
    assert job_slug(["env=a/b"]) != job_slug(["env=a:b"])
    long = [f"algo.learning_rate=0.{n}" for n in range(50)]
    assert len(job_slug(long)) < 120
    assert job_slug(long) != job_slug([*long, "seed=1"])
    common = {"total_steps=5"}
    shared = job_slug(["seed=1", "total_steps=5"], common)
    assert shared.startswith("seed-1_")
    assert shared != job_slug(["seed=1", "total_steps=6"], {"total_steps=6"})
