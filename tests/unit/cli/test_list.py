"""Tests that `rlox list` shows the options and the state of runs."""

from __future__ import annotations

import importlib.util
import json
import shutil
from datetime import datetime
from pathlib import Path

import gymnasium as gym
import pytest
from helpers.cli import TINY, Cli

from rlox.configs import ALGO_CONFIGS
from rlox.extras import install_command
from rlox_cli.commands.list import KINDS
from rlox_cli.config.options import CONF
from rlox_cli.runs.run_folder import RunFolder


def rows(out: str) -> list[list[str]]:
    return [line.split(maxsplit=4) for line in out.splitlines()]


def test_a_listing_without_a_kind_names_the_kinds(cli: Cli) -> None:
    refused = cli("list")
    assert refused.code == 2
    told = f"as a word alone; give what=WHAT, one of {', '.join(KINDS)}"
    assert told in " ".join(refused.err.split())


def test_every_algorithm_is_listed_with_a_line_on_it(cli: Cli) -> None:
    out = cli("list", "algo").out
    assert [line.split()[0] for line in out.splitlines()] == sorted(ALGO_CONFIGS)
    assert all(len(line.split()) > 3 for line in out.splitlines())


def test_environments_are_found_by_a_part_of_their_name(cli: Cli) -> None:
    out = cli("list", "env", "cartpole").out
    assert "CartPole-v1" in out
    assert "Pendulum" not in out
    (native,) = [line for line in out.splitlines() if line.endswith("in Rust")]
    assert native.split()[0] == "CartPole-v1"
    assert cli("list", "env", "no such thing").out == "nothing with 'no such thing' in its name\n"


def test_an_environment_that_needs_a_package_is_found_with_the_line_that_installs_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    absent = ("ale_py", "minigrid", "mujoco", "Box2D")
    find = lambda name, *rest: None if name in absent else real(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", find)
    for name, spec in list(gym.registry.items()):  # another test may have imported one of them
        if str(spec.entry_point).split(".")[0] in absent:
            monkeypatch.delitem(gym.registry, name)
    assert cli("list", "env", "pong").out == f"ALE/Pong-v5  Atari, needs: {install_command('atari')}\n"
    (door,) = cli("list", "env", "DoorKey-5x5").out.splitlines()
    assert door == f"MiniGrid-DoorKey-5x5-v0  MiniGrid, needs: {install_command('minigrid')}"
    (ant,) = cli("list", "env", "Ant-v5").out.splitlines()
    assert ant == f"Ant-v5  at most 1,000 steps, solved at 6000, needs: {install_command('mujoco')}"
    assert install_command("box2d") in cli("list", "env", "LunarLander-v3").out
    assert cli("list", "env", "Ant-v2").out == "Ant-v2  not in Gymnasium any more\n"


def test_a_line_on_an_option_is_a_whole_sentence(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for what in ("search", "exp", "tuned"):
        rows = [row for row in cli("list", what).out.splitlines() if row != "null"]
        cut = [row for row in rows if row[-1] != "." or row.count("(") != row.count(")")]
        assert (bool(rows), cut) == (True, [])
    (tmp_path / "search").mkdir()
    comment = "# @package hydra.sweeper\n# Ours, as in\n# Doe et al. 2020.\n# More of it.\n"
    (tmp_path / "search" / "mine.yaml").write_text(comment + "params: {}\n# Else.\n")
    (tmp_path / "search" / "other.yaml").write_text("params: {}\n# no full stop\na: 1\n# Else\n")
    monkeypatch.setenv("RLOX_CONF_PATH", str(tmp_path))
    assert cli("list", "search", "mine").out == "mine  Ours, as in Doe et al. 2020.\n"
    assert cli("list", "search", "other").out == "other  no full stop\n"


def test_each_group_of_the_conf_folder_is_listed_with_a_line_on_each(cli: Cli) -> None:
    groups = {path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra"}
    assert groups - {"__pycache__"} <= set(KINDS)
    for what in set(KINDS) - {"runs", "plugins"}:
        rows = cli("list", what).out.splitlines()
        assert all(len(row.split(maxsplit=1)) == 2 for row in rows if row[:4] != "null"), what
    assert cli("list", "plugins", "no such").out == "nothing with 'no such' in its name\n"


def test_presets_are_listed_with_their_source(cli: Cli) -> None:
    out = cli("list", "tuned", "dqn/").out
    assert "dqn/CartPole-v1" in out
    assert "rl-baselines3-zoo" in out
    assert "classic_control" in cli("list", "exp").out


def test_rlox_list_derives_the_state_from_the_lock_and_the_status_file(cli: Cli, trained: Path) -> None:
    started = json.loads((trained / "provenance.json").read_text())["started"]

    def state() -> list[str]:
        head, row = cli("list", "runs").out.splitlines()
        assert head.split() == ["state", "date", "seed", "progress", "score", "run"]
        found, day, hour, *rest = row.split()
        assert f"{day} {hour}" == f"{datetime.fromisoformat(started).astimezone():%Y-%m-%d %H:%M}"
        return [found, *rest]

    score = json.loads((trained / "result.json").read_text())["score"]
    assert state() == [
        "done",
        "0",
        "256",
        "steps",
        f"{score:.{1 if score >= 100 else 2 if score >= 10 else 3}f}",
        str(trained),
    ]
    with RunFolder.reopen(trained):
        assert state()[0] == "running"
    status = json.loads((trained / "status.json").read_text())
    (trained / "status.json").write_text(json.dumps(status | {"status": "running"}))
    assert state()[0] == "died"  # after a SIGKILL no process wrote the end
    (trained / "status.json").write_text("{")
    assert state() == ["unreadable", "status.json", "is", "damaged", str(trained)]
    (trained / "status.json").unlink()
    assert state() == ["unreadable", "status.json", "is", "missing", str(trained)]
    assert cli("list", "runs", "state=unreadable").out.count("\n") == 2


def test_rlox_list_finds_runs_in_run_root_by_a_part_of_their_path(cli: Cli, trained: Path) -> None:
    shutil.copytree(trained, "else/é where", symlinks=True)
    out = cli("list", "runs", "é", "run_root=else").out
    assert out.splitlines()[1].endswith("else/é where")
    assert cli("list", "runs", "nothing").out == "nothing with 'nothing' in its name in runs\n"


def test_rlox_list_shows_progress_in_the_unit_of_the_algorithm(cli: Cli) -> None:
    run = Path("runs/x/bc/one")
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("algo: {name: bc}\n")
    (run / "status.json").write_text('{"status": "running", "step": 1000, "reason": ""}')
    for _ in range(2):
        row = cli("list", "runs").out.splitlines()[1].split()
        assert [row[0], *row[3:]] == ["died", "1,000", "updates", str(run)]
        (run / "result.json").write_text("[1]")


def test_the_progress_of_a_run_that_was_killed_is_that_of_its_newest_row(cli: Cli) -> None:
    run = left("one", "ppo", "CartPole-v1", "running", None)
    rows = '{"env_steps": 2048}\n{"env_steps": 4096}\n{"eval/return_mean": 9.0}\n{"env_st'
    (run / "metrics.jsonl").write_text(rows)
    assert cli("list", "runs").out.splitlines()[1].split()[4:6] == ["4,096", "steps"]


def left(name: str, algo: str, env: str, status: str, started: str | None, seed: int = 0) -> Path:
    """Write a run folder as a run leaves it."""
    run = Path("runs") / name
    run.mkdir(parents=True)
    config = f"algo: {{name: {algo}}}\nenv: {{id: {env}}}\nseed: {seed}\n"
    (run / "config.yaml").write_text(config)
    (run / "status.json").write_text(json.dumps({"status": status, "step": 8, "reason": ""}))
    if started is not None:
        (run / "provenance.json").write_text(json.dumps({"started": started}))
    return run


def test_the_newest_run_is_listed_last_whatever_its_path(cli: Cli) -> None:
    newest = left("a", "ppo", "CartPole-v1", "done", "2031-02-01T00:00:00+00:00", seed=7)
    oldest = left("b", "ppo", "CartPole-v1", "done", "2021-02-01T00:00:00+00:00")
    middle = left("c", "ppo", "CartPole-v1", "done", None)  # it counts with the time of its files
    shown = cli("list", "runs").out.splitlines()[1:]
    assert [row.split()[-1] for row in shown] == [str(run) for run in (oldest, middle, newest)]
    assert shown[-1].split()[3:] == ["7", "8", "steps", str(newest)]
    for name, date in (
        ("d", "not a date"),
        ("e", "9999-12-31T23:59:59-12:00"),
        ("f", "0001-01-01"),
    ):
        left(name, "ppo", "CartPole-v1", "done", date)
    (Path("runs/b") / "provenance.json").write_text("[]")
    assert len(cli("list", "runs").out.splitlines()) == 7


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        (("state=failed",), ["b", "d"]),
        (("algo=ppo",), ["a", "b"]),
        (("env=ALE/Pong-v5",), ["c", "d"]),
        (("state=failed", "env=my_pkg:MyEnv-v0"), ["b"]),
        (("only.algo=dqn", "only.state=failed"), ["d"]),
        (("state=died",), ["e"]),
    ],
)
def test_runs_are_chosen_by_state_algorithm_and_environment(
    filters: tuple[str, ...], names: list[str], cli: Cli
) -> None:
    runs = {
        "a": ("ppo", "CartPole-v1", "done"),
        "b": ("ppo", "my_pkg:MyEnv-v0", "failed"),
        "c": ("dqn", "ALE/Pong-v5", "killed"),
        "d": ("dqn", "ALE/Pong-v5", "failed"),
        "e": ("bc", "CartPole-v1", "running"),  # no process locks it
    }
    for day, (name, about) in enumerate(runs.items(), 1):
        left(name, *about, f"2026-02-0{day}T00:00:00+00:00")
    out = cli("list", "runs", *filters).out
    assert [row.split()[-1] for row in out.splitlines()[1:]] == [f"runs/{name}" for name in names]


def test_a_filter_that_no_run_meets_is_named_and_a_wrong_one_is_refused(cli: Cli) -> None:
    left("a", "ppo", "CartPole-v1", "done", None)
    assert cli("list", "runs", "state=killed").out == "nothing with state=killed in runs\n"
    wrong = cli("list", "runs", "state=broken")
    assert wrong.code == 2
    assert "state=broken: expected one of running, done, failed" in wrong.err
    elsewhere = cli("list", "env", "algo=ppo")
    assert elsewhere.code == 2
    assert "algo=ppo applies only to runs; leave it out, or use rlox list runs" in elsewhere.err


def test_each_algorithm_is_listed_with_a_line_of_its_own(cli: Cli) -> None:
    lines = dict(line.split(maxsplit=1) for line in cli("list", "algo").out.splitlines())
    assert len(set(lines.values())) == len(lines)
    for name, word in (
        ("tqc", "TQC"),
        ("td3", "TD3"),
        ("ddpg", "DDPG"),
        ("dpo", "DPO"),
        ("online_dpo", "Online DPO"),
    ):
        assert lines[name].startswith(word)


def test_rlox_list_runs_reports_a_missing_run_root_folder(cli: Cli) -> None:
    result = cli("list", "runs")
    assert (result.code, result.err) == (2, "rlox list: run_root=runs: no such folder\n")


@pytest.mark.parametrize("args", [("help", "list"), ("list", "--help")])
def test_the_help_of_a_command_is_found_both_ways(cli: Cli, args: tuple[str, ...]) -> None:
    result = cli(*args)
    assert result.code == 0
    assert result.out.startswith("usage: rlox list WHAT [TEXT] [key=value ...]\n")


def test_a_run_is_found_by_the_name_and_tags_that_it_was_given(cli: Cli) -> None:
    for name in ("first try", "other"):
        ended = cli("train", *TINY, f"run.name={name}", "run.tags=[baseline,v2]")
        assert ended.code == 0, ended.err
        assert ended.out.startswith(f"{name}: ppo on CartPole-v1, seed 0, ")
    head, row = cli("list", "runs", "first").out.splitlines()
    assert head.split() == ["state", "date", "seed", "progress", "score", "label", "run"]
    assert "  first try [baseline, v2]  runs/" in row
    assert len(cli("list", "runs", "v2").out.splitlines()) == 3
    run = Path(row.split()[-1])
    result = json.loads((run / "result.json").read_text())
    assert (result["name"], result["tags"]) == ("first try", ["baseline", "v2"])
    ended = cli("resume", str(run), "run.name=renamed", "total_steps=512")
    assert ended.code == 0, ended.err
    assert "renamed [baseline, v2]" in cli("list", "runs", "renamed").out


def test_a_new_label_does_not_repeat_a_finished_job(cli: Cli) -> None:
    place = "hydra.sweep.dir=sweep"
    assert cli("sweep", *TINY, "seed=0,1", place, "run.name=one").code == 0
    again = cli("sweep", *TINY, "seed=0,1", place, "run.name=two", "run.tags=[b]")
    assert again.code == 0, again.err
    assert again.out.count("done before: ") == 2


def test_options_of_a_folder_of_the_users_are_listed(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "conf" / "algo"
    folder.mkdir(parents=True)
    text = "# PPO with wide layers.\ndefaults: [ppo, _self_]\nnet_arch: [256, 256]\n"
    (folder / "ppo_big.yaml").write_text(text)
    found = cli("list", "algo", "ppo_big", "--config-dir", str(tmp_path / "conf"))
    assert found.out.split() == ["ppo_big", "PPO", "with", "wide", "layers."]
    shown = cli("train", "algo=ppo_big", "--help", "--config-dir", str(tmp_path / "conf"))
    assert "\nalgo=ppo (key=default" in shown.out
    assert "\nalgo=sac (key=default" not in shown.out
