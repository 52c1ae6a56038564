"""Tests that rlox names lost, empty, edited and moved files of a run folder, and loses no results."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli, Result
from helpers.reports import make_run
from helpers.tree import tree

from rlox.configs import make_run as make
from rlox.errors import ConfigError, StorageError
from rlox.runs.checkpoint import newest_checkpoint, read_checkpoint
from rlox_cli.commands.train import COMMAND
from rlox_cli.config import validate
from rlox_cli.report.read import read_run
from rlox_cli.report.study import group_runs
from rlox_cli.runs import resume, summary
from rlox_cli.runs.run_folder import RunFolder, read_status
from rlox_cli.runs.run_training import report_failure
from rlox_cli.runs.signals import Signals
from rlox_cli.shell.command import Call
from rlox_cli.sweeps.summary import write_summary

SWEEP_ARGUMENTS = ("sweep", *TINY, "total_steps=128", "eval.episodes=1", "hydra.sweep.dir=sweep")


def assert_refused(result: Result, hint: str) -> None:
    assert (result.code, "Traceback" in result.err) == (2, False), result.err
    assert hint in result.err


def edit_config(run: Path, old: str, new: str) -> None:
    file = run / "config.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_resume_of_a_trained_run_without_config_yaml_asks_to_restore_it(cli: Cli, trained: Path) -> None:
    (trained / "config.yaml").unlink()
    before = tree(trained)
    result = cli("resume", str(trained), "total_steps=512")
    assert_refused(result, "config.yaml is missing, and the run at step 256 has")
    assert "put config.yaml back" in result.err
    assert "delete" not in result.err
    assert tree(trained) == before
    (trained / "status.json").unlink()
    (trained / ".lock").unlink()
    assert "put config.yaml back" in cli("resume", str(trained)).err


def test_a_run_that_lost_its_status_goes_on(cli: Cli, trained: Path) -> None:
    (trained / "status.json").unlink()
    (trained / ".lock").unlink()
    result = cli("resume", str(trained), "total_steps=512")
    assert (result.code, "resumed at step 256" in result.out) == (0, True), result.err
    assert read_status(trained)["step"] == 512


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  n_envs: 4\n", "  n_envs: 2\n", "env.n_envs=2, but the checkpoint has env.n_envs=4"),
        (
            "  id: CartPole-v1",
            "  id: Acrobot-v1",
            "env.id=Acrobot-v1, but the checkpoint has env.id=Car",
        ),
        (
            "  normalize_obs: false",
            "  normalize_obs: true",
            "env.normalize_obs=true, but the checkpoint",
        ),
        ("  precision: f64", "  precision: f32", "env.precision=f32, but the checkpoint has"),
        (
            "  kwargs: {}",
            "  kwargs: {g: 9.5}",
            "env.kwargs.g=9.5, but the checkpoint has env.kwargs.g=unset",
        ),
    ],
)
def test_an_edited_environment_is_refused_before_it_is_built(
    cli: Cli, trained: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str
) -> None:
    monkeypatch.setattr(validate, "try_environment", lambda config: None)
    edit_config(trained, old, new)
    before = tree(trained)
    assert_refused(cli("resume", str(trained), "total_steps=512"), f"was edited: {said}")
    assert tree(trained) == before


@pytest.mark.parametrize(
    ("key", "was", "now", "said"),
    [
        ("kwargs", {"g": 9.0}, {}, "env.kwargs.g=unset, but the checkpoint has env.kwargs.g=9.0"),
        ("kwargs", {"a": 1, "b": 2}, {"a": 1}, "env.kwargs.b=unset"),
        ("kwargs", {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, "env.kwargs.a.c=2"),
        ("wrappers", [{"name": "m:W", "a": 1}], [{"name": "m:W", "a": 1, "b": 2}], "env.wrappers="),
        ("reward_wrappers", [{"name": "m:W", "a": 1}], [{"name": "m:W"}], "env.reward_wrappers="),
    ],
)
def test_arguments_that_are_added_or_taken_away_are_refused(
    trained: Path, key: str, was: Any, now: Any, said: str
) -> None:
    plan = resume.ResumePlan.read(trained, [])
    newest = newest_checkpoint(trained)
    assert newest is not None
    saved = read_checkpoint(newest)
    saved.config["env"][key] = was
    frozen = replace(plan.saved_config, env=replace(plan.saved_config.env, **{key: now}))
    with pytest.raises(ConfigError, match="was edited") as refused:
        resume._require_matching_checkpoints(replace(plan, saved_config=frozen), saved)
    assert said in str(refused.value)


def test_a_logger_that_is_put_into_a_configuration_is_no_reason_to_refuse(trained: Path) -> None:
    plan = resume.ResumePlan.read(trained, [])
    newest = newest_checkpoint(trained)
    assert newest is not None
    saved = read_checkpoint(newest)
    csv = {"csv": make({"logger": {"csv": {"name": "csv"}}}).logger["csv"]}
    resume._require_matching_checkpoints(
        replace(plan, saved_config=replace(plan.saved_config, logger=csv)), saved
    )


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_damaged_result_is_named_and_the_run_goes_on(cli: Cli, trained: Path, text: str) -> None:
    (trained / "result.json").write_text(text)
    result = cli("resume", str(trained), "total_steps=512")
    assert result.code == 0, result.err
    assert f"{trained}/result.json is damaged" in result.err
    assert json.loads((trained / "result.json").read_text())["env_steps"] == 512


def test_a_lost_result_is_made_again_by_another_evaluation(cli: Cli, trained: Path) -> None:
    before = json.loads((trained / "result.json").read_text())
    log = (trained / "metrics.jsonl").read_text().splitlines()
    (trained / "result.json").write_text("")
    assert cli("resume", str(trained)).code == 0
    again = json.loads((trained / "result.json").read_text())
    kept = ("score", "episodes", "env_steps", "status")
    assert {k: again[k] for k in kept} == {k: before[k] for k in kept}
    assert len((trained / "metrics.jsonl").read_text().splitlines()) == len(log)


def test_a_log_that_is_gone_is_called_missing(cli: Cli, trained: Path) -> None:
    (trained / "metrics.jsonl").unlink()
    result = cli("resume", str(trained), "total_steps=512")
    assert (result.code, "metrics.jsonl is missing" in result.err) == (1, True), result.err


@pytest.mark.parametrize("name", ["result.json", "status.json"])
def test_a_sweep_reports_a_job_with_a_damaged_file_and_completes_it_later(
    cli: Cli, tmp_path: Path, name: str
) -> None:
    assert cli(*SWEEP_ARGUMENTS, "seed=0,1").code == 0
    (job,) = tmp_path.glob("sweep/0_*")
    (job / name).write_text("")
    other = cli(*SWEEP_ARGUMENTS, "seed=1")
    assert other.code == 1
    assert f"unreadable: {job.name}: " in other.out
    assert f"{name} is damaged: it is empty" in other.out
    again = cli(*SWEEP_ARGUMENTS, "seed=0,1")
    assert again.code == 0, again.err
    assert "2 of 2 jobs done" in again.out
    assert len(list(tmp_path.glob("sweep/0_*"))) == 1


def test_a_result_without_its_entries_is_unreadable_in_the_summary(tmp_path: Path) -> None:
    make_run(tmp_path / "0_a", 5.0)
    (tmp_path / "0_a" / "result.json").write_text("{}")
    text = write_summary(tmp_path, [], {})
    assert "unreadable: 0_a: " in text and "result.json is damaged" in text


def test_a_report_names_the_damaged_files(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "0_a", 5.0)
    (folder / "result.json").write_text("")
    (folder / "config.yaml").write_text("a: [")
    notes = list(group_runs([read_run(folder)]).notes())
    assert "2 damaged files were passed over: 0_a/result.json, 0_a/config.yaml." in notes


def test_a_folder_that_is_moved_ends_the_run_and_is_not_made_again(trained: Path) -> None:
    new = trained.with_name("elsewhere")
    with (
        pytest.raises(StorageError, match=r"moved to .*elsewhere"),
        RunFolder.reopen(trained) as run,
    ):
        run.restart(1)
        run.update_step(2)
        trained.rename(new)
        run.update_step(3)
    assert not trained.exists()
    assert new.is_dir()


def test_another_folder_in_the_place_of_the_run_is_not_written_to(trained: Path) -> None:
    with pytest.raises(StorageError, match="rlox resume"), RunFolder.reopen(trained) as run:
        run.restart(1)
        trained.rename(trained.with_name("elsewhere"))
        trained.mkdir()
        run.update_step(3)
    assert list(trained.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_says_to_make_room_and_how_to_go_on(trained: Path, number: int) -> None:
    """The same holds at the first checkpoint, where the run starts again."""
    shutil.rmtree(trained / "checkpoints")
    error = StorageError("cannot write checkpoint x: it is full")
    error.__cause__ = OSError(number, "it is full")
    code, text = report_failure(error, trained, Call(COMMAND, [], Signals()))
    assert code == 5
    assert f"make room there; then to go on: rlox resume {trained}" in text


@pytest.mark.parametrize(
    ("path", "said"),
    [("-dash", "./-dash"), ("~x", "'./~x'"), ("a b", "'a b'"), ("runs/-x", "runs/-x")],
)
def test_quote_path_makes_a_path_safe_for_the_shell(path: str, said: str) -> None:
    assert summary.quote_path(Path(path)) == said
