"""Tests that TAB offers the words that may come next, also in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from helpers.cli import Cli
from helpers.packages import EXAMPLE_POINTS, Install
from helpers.terminal import RLOX, Terminal

from rlox.configs import ALGO_CONFIGS, LOGGER_CONFIGS
from rlox_cli.shell.completion import _gymnasium_ids, suggest

SHELLS = {
    "bash": ("--norc", "--noprofile", "-i"),
    "zsh": ("-f", "-i"),
    "fish": ("--no-config", "-i"),
}
READ = {
    "bash": "source <(rlox completion bash)",
    "zsh": "source <(rlox completion zsh)",
    "fish": "rlox completion fish | source",
}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tr", ["train"]),
        ("re", ["report", "resume"]),
        ("help sw", ["sweep"]),
        ("train algo=pp", ["algo=ppo"]),
        ("train env=CartP", ["env=CartPole-v0", "env=CartPole-v1"]),
        ("train env=AL", ["env=ALE/"]),
        ("train env=ALE/Pong", ["env=ALE/Pong-v5"]),
        ("train tuned=ra", ["tuned=rainbow/CartPole-v1"]),
        ("train tuned=dq", ["tuned=dqn/"]),
        ("train tuned=sac/P", ["tuned=sac/Pendulum-v1"]),
        ("train logger=", [f"logger={n}" for n in sorted(LOGGER_CONFIGS)]),
        ("train logger=[csv,t", ["logger=[csv,tensorboard"]),
        ("train exp=", [f"exp=classic_control{more}" for more in ("", "_suite", "_suite/")]),
        ("sweep algo=ppo,a", ["algo=ppo,a2c"]),
        ("evaluate x checkpoint=last,", []),
        ("train algo.clip", ["algo.clip_eps=", "algo.clip_vloss="]),
        ("train algo=a2c algo.clip", []),
        ("train algo=sac algo.ta", ["algo.target_entropy=", "algo.target_update_interval=", "algo.tau="]),
        ("train seed=1 see", []),
        ("train env.normalize_obs=", ["env.normalize_obs=false", "env.normalize_obs=true"]),
        ("train algo.activation=t", ["algo.activation=tanh"]),
        ("train algo.gamma=", ["algo.gamma=0.99"]),
        ("train env.wrappers=[hide_velocities,f", ["env.wrappers=[hide_velocities,flatten_observation"]),
        ("train device=c", ["device=cpu", "device=cuda"]),
        ("sweep sweep.", ["sweep.workers="]),
        ("train --cf", ["--cfg"]),
        ("train --cfg j", ["job"]),
        ("list ru", ["run_root=", "runs"]),
        ("list env Acro", ["Acrobot-v1"]),
        ("list algo td", ["td3", "td3_bc"]),
        ("completion z", ["zsh"]),
        ("evaluate x det", ["deterministic="]),
        ("no-such-command x", []),
        ("train algo=nope algo.gamm", ["algo.gamma="]),
    ],
)  # fmt: skip
def test_shell_completion_suggests_the_valid_next_words(
    line: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert suggest(line.split(" ")) == expected


def test_completion_offers_commands_first_and_then_keys_and_groups(cli: Cli) -> None:
    first = cli("completion", "bash", "words=").out.split()
    assert {"train", "resume", "evaluate", "sweep", "list", "doctor", "completion"} <= set(first)
    words = cli("completion", "bash", "words=train\n\n").out.split()
    assert {"algo=", "algo.", "env=", "seed=", "exp=", "resume=", "eval."} <= set(words)
    assert cli("completion", "bash", "words=train\nalgo=\n").out.split() == [
        f"algo={name}" for name in sorted(ALGO_CONFIGS)
    ]


def test_run_folders_are_offered_where_one_is_named(cli: Cli, trained: Path) -> None:
    run = str(trained)
    assert suggest(["resume", ""]) == suggest(["resume", "runs/Cart"]) == [run]
    assert suggest(["evaluate", "ru"])[-1] == run
    assert suggest(["train", "resume=r"]) == [f"resume={run}"]
    assert suggest(["resume", run, "total"]) == ["total_steps="]
    Path("elsewhere/deep").mkdir(parents=True)
    assert suggest(["resume", "el"]) == ["elsewhere/"]
    assert suggest(["train", "run_root=el"]) == ["run_root=elsewhere/"]


def test_shell_completion_suggests_plugins_and_the_keys_of_a_named_plugin(install: Install, cli: Cli) -> None:
    install("rlox-example", {**EXAMPLE_POINTS, "env.Coin-v0": "coins", "wrapper.doubled": "coins:D"})
    assert suggest(["train", "algo=v"]) == ["algo=vpg"]
    assert suggest(["train", "env=Coi"]) == ["env=Coin-v0"]
    assert suggest(["train", "env.wrappers=[d"]) == ["env.wrappers=[doubled"]
    assert "rlox_example" not in sys.modules
    assert suggest(["train", "logger=sqlite", "logger.sqlite.f"]) == ["logger.sqlite.file="]
    assert suggest(["train", "algo=vpg", "algo.clip"]) == []


def test_the_environment_ids_of_completion_equal_gymnasiums_registry() -> None:
    code = "import gymnasium; print(*gymnasium.registry)"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert sorted(set(_gymnasium_ids())) == sorted(fresh.stdout.split())
    assert "CartPole-v1" in gym.registry


def test_shell_completion_imports_no_torch_hydra_numpy_or_gymnasium() -> None:
    code = (
        "import sys; from rlox_cli.main import main; "
        "main(['completion', 'zsh', 'words=train\\nenv=Cart\\n']); "
        "print({'torch', 'hydra', 'omegaconf', 'numpy', 'gymnasium'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.split() == ["env=CartPole-v0", "env=CartPole-v1", "set()"], ran.stderr


@pytest.mark.parametrize(
    "shell",
    [
        "bash",
        pytest.param("zsh", marks=pytest.mark.slow),
        pytest.param("fish", marks=pytest.mark.slow),
    ],
)
def test_tab_completes_in_a_real_shell(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    path = f"{Path(RLOX).parent}:/usr/bin:/bin"
    home = {"PATH": path, "HOME": str(tmp_path), "INPUTRC": "/dev/null", "ZDOTDIR": str(tmp_path)}
    home["PYTHONPATH"] = os.environ.get("PYTHONPATH", "")  # if the code under test is not installed
    with Terminal(SHELLS[shell], tmp_path, program=program, columns=200, **home) as terminal:
        terminal.type(f"{READ[shell]}; echo re''ady\n")
        terminal.until("ready\r\n")
        # Keys wait while the shell answers TAB. If a word were not completed, the command would fail.
        terminal.type("rlox tr\talgo=pp\tenv=MountainCarC\t--cf\tjo\t-p env\n")
        terminal.until("id: MountainCarContinuous-v0")
        terminal.type("exit\n")
        assert terminal.end() == 0
