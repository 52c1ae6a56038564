"""Tests that `rlox train resume=RUN` refuses wrong use with exit code 2 and a reason, and changes no file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from helpers.cli import Cli, Result
from helpers.tree import tree

from rlox_cli.runs.run_folder import RunFolder

FROZEN = [
    ("algo.gamma=0.9", "algo.gamma=0.9: this run is frozen at algo.gamma=0.99"),
    ("seed=7", "seed=7: this run is frozen at seed=0"),
    ("env.n_envs=2", "start a new run: rlox train ... env.n_envs=2"),
    ("algo.net_arch=[8]", "frozen at algo.net_arch=[64,64]"),
    ("env.kwargs.g=9.8", "env.kwargs.g=9.8: this run is frozen at env.kwargs.g=unset"),
    ("run_root=elsewhere", "frozen at run_root="),
    ("dry_run=true", "frozen at dry_run=false"),
]
WRONG = [
    *[(group, "keeps its") for group in ("algo=ppo", "env=Acrobot-v1", "tuned=null", "exp=x")],
    ("logger=[csv]", "keeps its logger"),
    ("total_steps=100", "at step 256 already"),
    ("total_steps=many", "an integer"),
    ("total_steps=-5", "[1, inf)"),
    ("total_steps=300,400", "several values"),
    ("total_steps=${seed}", "an integer"),
    ("total_steps", "key=value"),
    ("totalsteps=300", "'total_steps'"),
    ("eval.evry=5", "'eval.every'"),
    ("eval=5", "eval.<key>=<value>"),
    ("eval.every=[1", "eval.every=[1"),
    ("device=gpu", "cuda"),
    ("+total_steps=300", "no +"),
    ("~seed", "no ~"),
    ("hydra.run.dir=x", "stays in its folder"),
    ("-m", "cannot be swept"),
    ("--multirun", "cannot be swept"),
    ("--cfg=job", "config.yaml"),
    ("--config-dir=x", "config.yaml"),
    ("resume=other", "2 times"),
]
HOSTILE = [
    ("_target_: os.system\ncommand: touch executed\n", "unknown key '_target_'"),
    ("env: {_target_: os.system, command: touch executed}\n", "unknown key 'env._target_'"),
    ("env: !!python/object/apply:os.system ['touch executed']\n", "not plain YAML"),
    ("env: {kwargs: &a [1]}\nalgo: *a\n", "an alias"),
    ("algo: {name: ppo, gamma: high}\n", "a number"),
    ("algo: {name: '${oc.env:HOME}'}\n", "expected one of ppo"),
    ("algo: 7\n", "a group of keys"),
    ("totalsteps: 5\n", "'total_steps'"),
    ("- a\n", "found list"),
    ("a: [\n", "not plain YAML"),
    ("", "NoneType"),
]


def assert_refused(result: Result, hint: str) -> None:
    assert (result.code, "Traceback" in result.err) == (2, False)
    assert hint in result.err
    assert len(result.err.strip().splitlines()) <= 8


@pytest.mark.parametrize(("override", "hint"), [*FROZEN, *WRONG])
def test_resume_refuses_frozen_or_invalid_overrides_and_leaves_the_folder(
    cli: Cli, trained: Path, override: str, hint: str
) -> None:
    before = tree(trained)
    assert_refused(cli("train", f"resume={trained}", override), hint)
    assert tree(trained) == before


def test_a_frozen_key_may_be_repeated_as_it_is(cli: Cli, trained: Path) -> None:
    same = ("algo.gamma=0.99", "seed=0", "env.n_envs=4", "algo.net_arch=[64,64]")
    result = cli("train", f"resume={trained}", *same)
    assert (result.code, "nothing was changed" in result.out) == (0, True)


def test_a_run_that_is_running_elsewhere_is_refused(cli: Cli, trained: Path) -> None:
    with RunFolder.reopen(trained):
        before = tree(trained)
        result = cli("train", f"resume={trained}", "total_steps=512")
        assert_refused(result, f"is running (pid {os.getpid()})")
        assert tree(trained) == before


@pytest.mark.parametrize(("text", "hint"), HOSTILE)
def test_a_hostile_configuration_is_refused_and_nothing_in_it_executed(
    cli: Cli, trained: Path, text: str, hint: str
) -> None:
    (trained / "config.yaml").write_text(text)
    before = tree(trained)
    result = cli("train", f"resume={trained}", "total_steps=512")
    assert_refused(result, hint)
    assert str(trained / "config.yaml") in result.err
    assert not Path("executed").exists()
    assert tree(trained) == before


def test_a_hydra_node_and_what_hydra_saved_are_never_looked_at(cli: Cli, trained: Path) -> None:
    node = "hydra: {launcher: {_target_: os.system, command: touch executed}}\n"
    for file in ("config.yaml", ".hydra/config.yaml", ".hydra/hydra.yaml"):
        with (trained / file).open("a") as opened:
            opened.write(node)
    assert cli("train", f"resume={trained}", "total_steps=512").code == 0
    assert not Path("executed").exists()
    assert "hydra" not in (trained / "config.yaml").read_text()


def test_a_configuration_edited_under_its_checkpoints_is_refused(cli: Cli, trained: Path) -> None:
    file = trained / "config.yaml"
    file.write_text(file.read_text().replace("seed: 0\n", "seed: 5\n", 1))
    before = tree(trained)
    result = cli("train", f"resume={trained}", "total_steps=512")
    assert_refused(result, "was edited: seed=5, but the checkpoint has seed=0")
    assert tree(trained) == before


def test_resume_accepts_a_configuration_that_lacks_a_newer_key(cli: Cli, trained: Path) -> None:
    """A version in between resumed this run and did not rewrite its configuration."""
    file = trained / "config.yaml"
    kept = [line for line in file.read_text().splitlines(True) if "  seeding: keyed" not in line]
    file.write_text("".join(kept))
    assert cli("train", f"resume={trained}", "total_steps=512").code == 0
    assert "  seeding: long\n" in file.read_text()


def test_a_folder_that_is_no_run_is_refused_with_the_runs_there_are(cli: Cli, trained: Path) -> None:
    near = str(trained)
    assert_refused(cli("train", f"resume={near[:-1]}"), f"no such folder; there is {near}")
    assert_refused(cli("train", "resume=runs"), f"config.yaml is missing; there is {near}")
    assert_refused(cli("train", "resume=nowhere/x"), "no such folder")
    assert_refused(cli("train", f"resume={trained}/config.yaml"), "a file")
    assert_refused(cli("train", f"resume={trained}/checkpoints/last"), "a checkpoint")
    assert_refused(cli("train", f"resume={trained}/.hydra"), "status.json is missing")
    assert_refused(cli("train", "resume="), "resume=RUN")
    assert_refused(cli("sweep", f"resume={trained}"), "rlox train resume=RUN")
    assert_refused(cli("train", f"+resume={trained}"), "rlox train resume=RUN")


def test_resume_of_an_unfinished_folder_says_to_delete_it(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / ".lock").write_text("")
    assert_refused(cli("train", "resume=half"), "delete the folder and start the run again")


def test_a_folder_killed_after_its_configuration_was_written_starts(cli: Cli, trained: Path) -> None:
    for name in ("status.json", "provenance.json", "metrics.jsonl", "episodes.jsonl"):
        (trained / name).unlink()
    for name in ("checkpoints", ".hydra"):
        shutil.rmtree(trained / name)
    result = cli("train", f"resume={trained}")
    assert (result.code, "resumed at step 0 of 256" in result.out) == (0, True), result.err
    assert (trained / "provenance.json").is_file()


def test_resume_null_is_a_fresh_run_and_a_misspelt_resume_is_recognised(cli: Cli) -> None:
    assert cli("train", "resume=null", "dry_run=true").code == 0
    assert_refused(cli("train", "resum=runs/x"), "'resume'")
