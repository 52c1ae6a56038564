"""Tests that help comes from the dataclasses, without an import of Hydra, Gymnasium or torch."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.cli import Cli
from helpers.waiting import PATIENCE

from rlox_cli import commands

PROBE = (
    "import sys; from rlox_cli.main import main; code = main(sys.argv[1:]); "
    "print('LOADED', *sorted({'torch', 'hydra', 'gymnasium', 'matplotlib'} & set(sys.modules))); "
    "sys.exit(code)"
)


def loaded(*args: str) -> set[str]:
    """Return the heavy modules that a command imports."""
    command = [sys.executable, "-c", PROBE, *args]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "LOADED"
    return set(last[1:])


def test_the_general_help_imports_nothing_heavy() -> None:
    assert loaded("--help") == set()


def test_showing_a_config_never_imports_torch() -> None:
    modules = loaded("train", "--cfg", "job", "env=Acrobot-v1")
    assert "torch" not in modules
    assert "hydra" in modules


@pytest.mark.parametrize("override", ["env=CartPol-v1", "seed=x", "lr=1"])
def test_wrong_use_does_not_wait_for_torch(override: str) -> None:
    script = PROBE.replace("sys.exit(code)", "sys.exit(0 if code == 2 else 1)")
    command = [sys.executable, "-c", script, "train", override]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "torch" not in done.stdout


def test_the_help_of_several_algorithms_has_the_keys_of_each(cli: Cli) -> None:
    out = cli("sweep", "algo=a2c,ppo", "--help").out
    assert "algo.clip_eps=0.2" in out
    assert "algo.use_rms_prop=true" in out
    assert "algo.n_steps=5 " in out
    assert "algo.n_steps=256 " in out
    assert "others: algo=recurrent_ppo, algo=pqn," in out  # help names the algorithms that were not chosen


def test_the_help_of_an_algorithm_has_no_keys_of_another(cli: Cli) -> None:
    out = cli("train", "algo=a2c", "--help").out
    assert "algo.n_steps=5 " in out
    assert "algo.clip_eps" not in out
    assert "algo=a2c (key=default" in out


def test_defaults_ranges_and_groups_are_shown_but_not_every_environment(cli: Cli) -> None:
    out = cli("train", "--help").out
    assert "algo.clip_eps=0.2" in out
    assert "in (0, 1)" in out
    assert "ppo/CartPole-v1" in out
    assert "csv, jsonl, mlflow, tensorboard, wandb" in out
    assert "FrozenLake-v1" not in out
    assert "resume=RUN" in out
    assert "resume=RUN" not in cli("sweep", "--help").out


def test_help_shows_only_presets_of_the_chosen_algorithms(cli: Cli) -> None:
    for algo, shown, left_out in (
        ("ppo", "ppo/Acrobot-v1", "a2c/Acrobot-v1"),
        ("a2c", "a2c/Acrobot-v1", "ppo/Acrobot-v1"),
    ):
        out = cli("train", f"algo={algo}", "--help").out
        assert shown in out and left_out not in out
        assert "rlox list tuned" in out and "classic_control" in out
    both = cli("sweep", "algo=ppo,a2c", "--help").out
    assert "ppo/Acrobot-v1" in both and "a2c/Acrobot-v1" in both


def test_the_general_help_names_every_command(cli: Cli) -> None:
    for args in (("--help",), ()):
        result = cli(*args)
        assert result.code == 0
        assert all(f"\n  {command} " in result.out for command in commands.names())


def test_help_shows_the_defaults_that_an_algorithm_brings(cli: Cli) -> None:
    assert "env.n_envs=8 " in cli("train", "--help").out
    assert "env.n_envs=1 " in cli("train", "algo=dqn", "--help").out
    assert "buffer.alpha=0.5 " in cli("train", "algo=rainbow", "--help").out
    out = cli("train", "algo=bc", "--help").out
    assert "total_steps=20000 " in out
    assert "checkpoint.every=5000 " in out
    assert "buffer.path=null " in out


def test_help_shows_the_keys_of_the_buffer_that_auto_stands_for(cli: Cli) -> None:
    for algo, keys in (
        ("ppo", "buffer=rollout"),
        ("dqn", "buffer=auto"),
        ("rainbow", "buffer=prioritized"),
        ("bc", "buffer=offline"),
    ):
        plain = cli("train", f"algo={algo}", "--help").out
        assert f"\n{keys} (key=default" in plain
        assert cli("train", f"algo={algo}", "buffer=auto", "--help").out == plain
        assert "_of" not in plain


def test_help_says_what_an_algorithm_counts(cli: Cli) -> None:
    out = cli("sweep", "algo=ppo,bc", "--help").out
    assert "algo=ppo (key=default  meaning; counts environment steps, all copies together" in out
    assert "algo=bc (key=default  meaning; counts updates" in out


def test_composed_configs_have_the_algorithms_defaults_unless_overridden(
    cli: Cli,
) -> None:
    assert "n_envs: 1" in cli("train", "algo=dqn", "tuned=null", "--cfg", "job").out
    given = cli("train", "algo=dqn", "tuned=null", "env.n_envs=3", "--cfg", "job").out
    assert "n_envs: 3" in given
    assert "total_steps: 50000" in cli("train", "algo=dqn", "--cfg", "job").out  # from the preset
