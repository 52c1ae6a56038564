"""Tests which jobs count as the same, and that jobs composed from one base equal those that Hydra makes."""

from __future__ import annotations

import json
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlox.configs import RunConfig, make_run, to_plain
from rlox_cli import commands
from rlox_cli.config import compose, plain_yaml
from rlox_cli.report.read import unstarted_jobs
from rlox_cli.runs import identity
from rlox_cli.runs.run_folder import RunFolder, read_status
from rlox_cli.runs.signals import Signals
from rlox_cli.shell.command import Call
from rlox_cli.sweeps import grid
from rlox_cli.sweeps.kept_loggers import kept_loggers_message
from rlox_cli.sweeps.sweep import PlannedJob, SweepPlan, finish_sweep

from .test_sweep import PLACE, job_names


@pytest.mark.parametrize(
    "aside",
    [
        {"logger": {"csv": {"name": "csv"}}},
        {"threads": 3},
        {"run": {"name": "mine", "tags": ["a"]}},
        {"run_root": "elsewhere"},
    ],
)
def test_loggers_threads_names_and_run_roots_do_not_change_a_jobs_identity(
    aside: dict[str, Any],
) -> None:
    assert identity.identity(make_run(aside)) == identity.identity(make_run({}))


@pytest.mark.parametrize("other", [{"torch_threads": 2}, {"device": "cuda"}, {"total_steps": 5}])
def test_torch_threads_device_and_total_steps_change_a_jobs_identity(other: dict[str, Any]) -> None:
    assert identity.identity(make_run(other)) != identity.identity(make_run({}))


def test_a_saved_job_of_an_older_schema_has_the_current_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = make_run({"seed": 4})
    (tmp_path / "config.yaml").write_text(plain_yaml.dump(to_plain(old)))
    before = identity.saved_identity(tmp_path)
    newer = make_dataclass("Newer", [("warm", int, field(default=7))], bases=(RunConfig,), frozen=True)

    def today(data: dict[str, Any]) -> RunConfig:
        return newer(**vars(make_run(data)))

    monkeypatch.setattr(identity, "make_run", today)
    identity._read_cached.cache_clear()
    assert identity.saved_identity(tmp_path) == identity.identity(today({"seed": 4})) != before
    identity._read_cached.cache_clear()


def test_jobs_of_a_sweep_keep_their_loggers_when_others_are_requested(cli: Cli, tmp_path: Path) -> None:
    assert cli("sweep", *TINY, "seed=1,2", "logger=csv", PLACE).code == 0
    again = cli("sweep", *TINY, "seed=1,2", "logger=tensorboard", "threads=2", PLACE)
    assert "2 of 2 jobs done, 2 of them before" in again.out
    kept = "2 finished jobs keep their loggers (csv); logger=tensorboard applies to new jobs only"
    assert again.out.count(kept) == 1
    (first, second) = sorted((tmp_path / "sweep").glob("[0-9]*"))
    status = read_status(second) | {"status": "killed"}
    (second / "status.json").write_text(json.dumps(status))
    result = cli("sweep", *TINY, "seed=1,2", "logger=tensorboard", PLACE)
    assert result.code == 0, result.err
    assert "keeps the loggers that it began with: csv" in result.out
    assert read_status(second)["status"] == "done"
    assert not (second / "tb").exists() and (second / "metrics.csv").exists()
    assert job_names(tmp_path / "sweep") == [first.name, second.name]


@pytest.mark.parametrize(
    ("had", "asked", "said"),
    [
        (["wandb"], {}, ""),
        ([], {"wandb": {"name": "wandb"}}, "(none); logger=wandb applies to new jobs only"),
        (
            ["wandb"],
            {"wandb": {"name": "wandb", "mode": "online"}, "csv": {"name": "csv"}},
            "(wandb); logger=csv applies to new jobs only; to send their rows to the new address too: "
            "rlox sync RUN wandb.mode=online",
        ),
        (
            ["mlflow"],
            {"mlflow": {"name": "mlflow", "tracking_uri": "http://localhost:5000"}},
            "(mlflow); to send their rows to the new address too: rlox sync RUN mlflow.tracking_uri=ADDRESS",
        ),
    ],
)
def test_one_line_names_the_loggers_that_finished_jobs_do_not_get(
    tmp_path: Path, had: list[str], asked: dict[str, Any], said: str
) -> None:
    before = make_run({"logger": {name: {"name": name} for name in had}})
    (tmp_path / "config.yaml").write_text(plain_yaml.dump(to_plain(before)))
    outcome = {"identity": "it", "status": "skipped", "message": "", "folder": str(tmp_path)}
    line = kept_loggers_message([outcome], {"it": make_run({"logger": asked})})
    expected = f"1 finished job keeps its loggers {said}" if said else ""
    assert line == expected
    assert kept_loggers_message([outcome | {"message": "busy"}], {"it": make_run({"logger": asked})}) == ""


def write_old_run(config: RunConfig, folder: Path) -> Path:
    """Write the folder of a run with this configuration, as versions without these keys wrote it."""
    tree = to_plain(config)
    del tree["env"]["seeding"], tree["env"]["normalize_rule"]
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(plain_yaml.dump(tree))
    return folder


@pytest.mark.parametrize(
    ("env", "same"),
    [
        ({}, True),
        ({"normalize_obs": True, "normalize_rule": "sb3"}, True),
        ({"normalize_reward": True, "normalize_rule": "sb3"}, True),
        ({"normalize_obs": True, "normalize_rule": "relative"}, False),
        ({"seeding": "offset"}, False),
    ],
)
def test_an_old_job_without_rule_keys_has_the_identity_of_its_old_rules(
    tmp_path: Path, env: dict[str, Any], same: bool
) -> None:
    asked = make_run({"env": env})
    old = write_old_run(asked, tmp_path / "0_a")
    assert (identity.saved_identity(old) == identity.identity(asked)) == same


def test_an_old_preset_job_without_rule_keys_has_the_identity_of_the_preset(cli: Cli, tmp_path: Path) -> None:
    preset = ("train", "--cfg", "job", "tuned=ppo/MountainCar-v0", "env=MountainCar-v0")
    config = OmegaConf.to_container(OmegaConf.create(cli(*preset).out))
    assert isinstance(config, dict) and config["env"]["normalize_rule"] == "sb3"
    asked = make_run({str(key): value for key, value in config.items()})
    old = write_old_run(asked, tmp_path / "0_a")
    assert identity.saved_identity(old) == identity.identity(asked)


@pytest.mark.parametrize("seeding", ["keyed", "offset"])
@pytest.mark.parametrize("rule", ["relative", "sb3"])
def test_every_key_of_the_environment_is_part_of_a_jobs_identity(seeding: str, rule: str) -> None:
    config = make_run({"env": {"seeding": seeding, "normalize_rule": rule}})
    assert identity.result_config(config)["env"] == to_plain(config)["env"]


def test_a_sweep_without_rule_keys_resumes_with_its_old_rule_or_names_it(cli: Cli, tmp_path: Path) -> None:
    line = ("sweep", "tuned=null", "seed=1,2,3", "dry_run=true", PLACE)
    for normalize in (True, False):
        config = make_run({"seed": 1, "env": {"normalize_obs": normalize}})
        write_old_run(config, tmp_path / "sweep" / f"{int(normalize)}_a")
    assert cli(*line).code == 0, "nothing of it is normalised"
    line = (*line, "env.normalize_obs=true")
    refused = cli(*line)
    assert refused.code == 2
    assert "1_a normalises by env.normalize_rule=sb3, as runs did before" in refused.err
    assert "to go on with its folder: env.normalize_rule=sb3; to begin anew: hydra" in refused.err
    goes_on = cli(*line, "env.normalize_rule=sb3")
    assert goes_on.code == 0, goes_on.err
    assert cli(*line, "env.normalize_rule=sb3,relative").code == 0


def to_container(config: DictConfig) -> dict[Any, Any]:
    OmegaConf.set_struct(config, False)
    del config["hydra"]
    data = OmegaConf.to_container(config)
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize(
    ("given", "bases"),
    [
        (["env=CartPole-v1,Acrobot-v1", "algo=ppo,a2c", "algo.learning_rate=lin_3e-4,1e-3"], 4),
        (["algo=dqn", "logger=[csv],[csv,tensorboard]", "run.name=a,b", "+env.kwargs.g=1,2"], 2),
        (["tuned=ppo/Acrobot-v1", "env.kwargs={a:1},{b:2}", "~callbacks"], 1),
    ],
)
def test_jobs_composed_from_one_base_are_what_hydra_composes(given: list[str], bases: int) -> None:
    call = Call(commands.load("sweep"), given, Signals())
    line = compose.ParsedArguments.parse(call.command, ["-m", *given])
    overrides = [*line.overrides, "hydra.sweep.dir=x", "hydra.mode=MULTIRUN"]
    with compose._application() as app:
        master = app.compose_config(line.primary, overrides, RunMode.MULTIRUN, with_log_configuration=False)
        composer = grid.Composer(app, master)
        for job in grid.combinations(app, master):
            ours, theirs = composer(job), app.config_loader.load_sweep_config(master, job)
            assert to_container(ours) == to_container(theirs), job
        assert len(composer._bases) == bases


def test_a_pruned_job_is_neither_done_nor_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = make_run({"seed": 1})
    with RunFolder.create(config, tmp_path / "0_a") as folder:
        folder.start(config, {})
        folder.write_status("pruned", "below the median")
    assert finish_sweep(SweepPlan(tmp_path, [PlannedJob(["seed=1"], config)], False), []) == 0
    assert "0 of 1 jobs done, 1 pruned" in capsys.readouterr().out


def test_a_job_folder_that_was_renamed_is_still_the_folder_of_its_job(tmp_path: Path) -> None:
    for name in (
        "0_seed-0_ab",
        "1_baseline",
        "my job",
        "2_b.attempt1",
        ".3_c",
        "report",
        "4_begun",
    ):
        (tmp_path / name).mkdir()
        for file in ("config.yaml", "status.json") if name not in ("report", "4_begun") else ():
            (tmp_path / name / file).write_text("{}")
    (tmp_path / "5_file").write_text("")
    found = [path.name for path in identity.job_folders(tmp_path)]
    assert found == ["my job", "0_seed-0_ab", "1_baseline", "4_begun"]
    assert identity.job_folders(tmp_path / "nowhere") == []


def test_a_sweep_lists_unstarted_jobs_from_its_beginning(
    tmp_path: Path,
) -> None:
    configs = [make_run({"seed": seed}) for seed in (1, 2, 3)]
    jobs = [PlannedJob([f"seed={c.seed}", "env=CartPole-v1"], c) for c in configs]
    place = tmp_path / "sweep"
    SweepPlan(place, jobs, False).record_decisions(place)
    listed = {run.name: run.status for run in unstarted_jobs(place, set())}
    assert listed == dict.fromkeys(["0_seed-1", "1_seed-2", "2_seed-3"], "not started")
    with RunFolder.create(configs[1], place / "my job") as folder:
        folder.start(configs[1], {})
        folder.write_status("done")
    SweepPlan(place, jobs, False).record_decisions(place)
    assert [run.name for run in unstarted_jobs(place, set())] == ["0_seed-1", "2_seed-3"]


def test_a_sweep_in_the_folder_of_a_run_is_refused(cli: Cli, tmp_path: Path) -> None:
    with RunFolder.create(config := make_run({}), tmp_path / "run") as folder:
        folder.start(config, {})
        folder.write_status("done")
    before = sorted(tmp_path.rglob("*"))
    refused = cli("sweep", *TINY, "seed=1,2", "hydra.sweep.dir=run")
    said = "hydra.sweep.dir=run is the folder of a run; name another folder: hydra.sweep.dir=FOLDER"
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert sorted(tmp_path.rglob("*")) == before
