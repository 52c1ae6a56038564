"""The native engine imports no torch, from the shell to a scored run, and on from there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Whoever imports torch in such a process is told that there is none. Native is what `auto` takes.
WITHOUT = """
import sys
sys.modules["torch"] = None
from rlox.training import backend
cells = [{"width": 1024, "rows": 1024, "ratio": 3.0}]
measured = dict.fromkeys(("ppo", "a2c", "dqn", "sac", "td3", "ddpg"), cells)
backend._table = lambda: {backend.cpu_kind(): {"algorithms": measured}}
from rlox_cli.main import main
sys.argv = ["rlox", *sys.argv[1:]]
sys.exit(main())
"""
QUICK = ("run_root=runs", "tuned=null", "eval.episodes=2", "algo.net_arch=[8]", "logger=jsonl")
PPO = ("algo=ppo", "algo.n_steps=32", "env.n_envs=2", "total_steps=256", "algo.n_epochs=2")
A2C = ("algo=a2c", "algo.n_steps=8", "env.n_envs=2", "total_steps=160")
REPLAYED = (
    "algo.batch_size=16",
    "algo.learning_starts=32",
    "buffer.capacity=256",
    "total_steps=128",
)
DQN = ("algo=dqn", "env=CartPole-v1", *REPLAYED)
SAC = ("algo=sac", "env=Pendulum-v1", *REPLAYED)
TD3 = ("algo=td3", "env=Pendulum-v1", *REPLAYED)


def rlox(folder: Path, *arguments: str) -> str:
    """What the command says, without torch."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "options",
    [
        (*PPO, "env=CartPole-v1"),
        (*PPO, "env=Pendulum-v1", "algo.use_sde=true", "algo.sde_sample_freq=4"),
        (*PPO, "env=Pendulum-v1", "env.normalize_obs=true", "env.normalize_reward=true"),
        (*PPO, "env=CartPole-v1", "env.backend=gymnasium", "eval.every=128"),
        (*A2C, "env=CartPole-v1", "checkpoint.every=80"),
        (*A2C, "env=Pendulum-v1", "algo.use_rms_prop=false"),
        (*DQN, "algo.dueling=true", "algo.n_step=3", "buffer=prioritized", "eval.every=64"),
        (*DQN, "env.backend=gymnasium", "env.normalize_obs=true", "algo.tau=0.5"),
        (*SAC, "env.normalize_reward=true"),
        (*SAC, "env.n_envs=3", "algo.ent_coef=0.1", "checkpoint.every=64"),
        TD3,
        (*REPLAYED, "algo=ddpg", "env=Pendulum-v1", "buffer=prioritized"),
    ],
    ids=[
        "ppo", "gsde", "normalised", "gymnasium", "a2c", "adam", "dqn", "single steps", "sac",
        "a temperature that stays", "td3", "ddpg",
    ],
)  # fmt: skip
def test_a_run_imports_no_torch(options: tuple[str, ...], tmp_path: Path) -> None:
    said = rlox(tmp_path, "train", *QUICK, *options, "algo.backend=native")
    assert "score" in said or "mean return of the last" in said


def test_a_resume_and_an_evaluation_import_no_torch(tmp_path: Path) -> None:
    said = rlox(tmp_path, "train", *PPO, *QUICK, "env=CartPole-v1", "algo.backend=auto")
    assert "backend native" in said
    (run,) = (path.parent for path in tmp_path.rglob("result.json"))
    assert "score" in rlox(tmp_path, "train", f"resume={run}", "total_steps=512")
    assert "score" in rlox(tmp_path, "evaluate", str(run), "episodes=3")


@pytest.mark.parametrize("options", [DQN, SAC, TD3], ids=["dqn", "sac", "td3"])
def test_so_do_those_of_replayed_transitions(options: tuple[str, ...], tmp_path: Path) -> None:
    assert "backend native" in rlox(tmp_path, "train", *QUICK, *options, "algo.backend=auto")
    (run,) = (path.parent for path in tmp_path.rglob("result.json"))
    rlox(tmp_path, "train", f"resume={run}", "total_steps=192")
    assert json.loads((run / "result.json").read_text())["env_steps"] == 192
    assert "score" in rlox(tmp_path, "evaluate", str(run), "episodes=3")
    rlox(tmp_path, "train", *QUICK, *options, f"init_from={run}", "run_root=begun")


def test_a_run_of_torchs_engine_says_that_there_is_none(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, "train", *PPO, *QUICK, "algo.backend=torch"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "import of torch" in done.stderr
