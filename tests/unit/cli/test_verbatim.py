"""Tests that a path on the command line may be any text that can name a folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers.cli import TINY, Cli, only_run
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from rlox_cli.config.verbatim import quote_existing_path, quote_values

NAMES = (
    "ünïcödé", "日本/2", "a=b", "with space", "it's", 'say "so"', "back\\slash", "end\\", "\\'", "[1",
    "x(1)", "a,b", "{c: d}", "123", "#1", "true", "@home", "p%q&r", "über/=1,2[",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_quoted_path_overrides_keep_the_typed_text(name: str) -> None:
    (override,) = quote_values([f"run={name}"], frozenset({"run"}), allow_several=False)
    assert OverridesParser.create().parse_override(override).value() == name


@pytest.mark.parametrize(
    ("override", "several", "expected"),
    [
        ("run='a b'", False, "run='a b'"),
        ('run="a,b"', True, 'run="a,b"'),
        ("run=null", False, "run=null"),
        ("run=a,b c", True, "run='a','b c'"),
        ('run="a,b",c', True, """run="a,b",'c'"""),
        ("run=c,'a,b'", True, "run='c','a,b'"),
        ('run="a,b","c,d"', True, 'run="a,b","c,d"'),
        ("run=it's,b", True, r"run='it\'s','b'"),
        ('run="a,b', True, """run='"a','b'"""),
        ("run=${oc.env:D,x},b", True, "run='${oc.env:D,x}','b'"),
        ("run=a,,b", True, "run='a',,'b'"),
        ("run=choice(a,b)", True, "run=choice(a,b)"),
        ("run=choice(a,b)", False, "run='choice(a,b)'"),
        ("+run=é", False, "+run='é'"),
        ("seed=é", False, "seed=é"),
        ("~run", False, "~run"),
        ("run=${oc.env:HOME}/é", False, "run='${oc.env:HOME}/é'"),
    ],
)
def test_quoting_of_path_overrides_keeps_hydra_syntax_that_has_a_meaning(
    override: str, several: bool, expected: str
) -> None:
    assert list(quote_values([override], frozenset({"run"}), several)) == [expected]


def test_quoting_expands_a_tilde_in_a_path_to_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert list(quote_values(["run=~/é"], frozenset({"run"}), False)) == [f"run='{tmp_path}/é'"]


def test_a_run_in_a_folder_of_any_name_is_evaluated_and_resumed_there(cli: Cli, tmp_path: Path) -> None:
    ran = cli("train", *TINY, "run_root=ünï =[1,2]'s")
    assert ran.code == 0, ran.err
    run = only_run(tmp_path / "ünï =[1,2]'s").relative_to(tmp_path)
    played = cli("evaluate", f"run={run}", "episodes=2")
    assert played.code == 0, played.err
    assert (run / "eval" / "last.json").is_file()
    resumed = cli("train", f"resume={run}", "total_steps=512")
    assert resumed.code == 0, resumed.err


def test_a_named_folder_a_dataset_and_a_sweep_take_any_text_too(
    cli: Cli, tmp_path: Path, template: Path
) -> None:
    shutil.copytree(template, tmp_path / "da=ta")
    named = cli("train", *TINY, "hydra.run.dir=é [1")
    assert named.code == 0, named.err
    assert (tmp_path / "é [1" / "result.json").is_file()
    sweep = cli("sweep", *TINY, "seed=0,1", "hydra.sweep.dir=sw é(1)")
    assert sweep.code == 0, sweep.err
    assert (tmp_path / "sw é(1)" / "summary.md").is_file()
    missing = cli("train", "algo=bc", "buffer.path=da=ta", "total_steps=10")
    assert missing.code == 2
    assert "da=ta" in missing.err


@pytest.mark.parametrize("name", [*NAMES, "null", "???", "~tilde", "${oc.env:HOME}", "a\\${b}", '"q"'])
def test_an_existing_path_keeps_its_name_despite_hydra_syntax(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir(parents=True)
    (override,) = quote_values([f"run={quote_existing_path(name)}"], frozenset({"run"}), allow_several=False)
    value = OverridesParser.create().parse_override(override).value()
    read = OmegaConf.to_container(OmegaConf.create({"run": value}), resolve=True)
    assert Path(read["run"]) == Path(name)  # type: ignore[call-overload,index]


@pytest.mark.parametrize("name", ["null", "~tilde", "${oc.env:HOME}"])
def test_commands_take_a_run_folder_whose_name_means_something_to_hydra(
    cli: Cli, template: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(template, tmp_path / name)
    done = cli("resume", name)
    assert (done.code, "done: " in done.out, "nothing was changed" in done.out) == (0, True, True)
    for command in ("evaluate", "sync", "report"):
        more = {"evaluate": ["episodes=1"], "report": ["formats=[]"]}.get(command, [])
        ended = cli(command, name, *more)
        assert ended.code == 0, ended.err
    assert (tmp_path / name / "eval" / "last.json").is_file()
    assert (tmp_path / name / "report" / "report.json").is_file()


@pytest.mark.parametrize("argument", ["null", "run=null"])
def test_resume_never_begins_a_run(cli: Cli, tmp_path: Path, argument: str) -> None:
    refused = cli("resume", argument, "total_steps=128")
    assert (refused.code, refused.err) == (2, "rlox resume: resume=./null: no such folder\n")
    assert list(tmp_path.iterdir()) == []


def test_the_current_folder_is_the_run_folder_where_that_is_asked(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert cli("train", *TINY, "hydra.run.dir=.", "env=DictObs-v0").code == 2
    assert list((tmp_path / "empty").iterdir()) == []
    assert cli("train", *TINY, "hydra.run.dir=.").code == 0
    assert (tmp_path / "empty" / "result.json").is_file()
    assert not (tmp_path / "empty" / "runs").exists()
    refused = cli("train", *TINY, "hydra.run.dir=.")
    assert (refused.code, "not empty" in refused.err) == (2, True)
