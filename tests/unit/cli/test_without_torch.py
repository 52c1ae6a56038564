"""Tests that the native engine imports no torch: to train, score, resume, evaluate or begin from a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.waiting import PATIENCE

# In a process with this script an import of torch fails, and `auto` selects native.
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
    """Run the command without torch and return its output."""
    command = [sys.executable, "-c", WITHOUT, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def only_run(folder: Path) -> Path:
    (run,) = (path.parent for path in folder.rglob("result.json"))
    return run


def finished(run: Path, env_steps: int) -> None:
    """Assert that the run has learned in `env_steps` steps and has played two episodes for its score."""
    result = json.loads((run / "result.json").read_text())
    assert result["status"] == "done"
    assert env_steps <= result["env_steps"] < env_steps + 3  # up to three environments step at once
    assert result["updates"] > 0
    played(result["score"], result["episodes"], 2)


def played(score: float, returns: list[float], episodes: int) -> None:
    """Assert that `score` is the mean of `episodes` returns, each possible in CartPole or Pendulum."""
    assert len(returns) == episodes
    assert all(1.0 <= r <= 500.0 or 200 * -16.3 < r < 0.0 for r in returns), returns
    assert score == pytest.approx(sum(returns) / episodes)


def evaluated(run: Path, folder: Path) -> None:
    """Assert that `rlox evaluate` plays three episodes without torch and writes their returns."""
    rlox(folder, "evaluate", str(run), "episodes=3")
    found = json.loads((run / "eval" / "last.json").read_text())
    played(found["mean"], found["episodes"], 3)


RUNS = {
    "gsde": (*PPO, "env=Pendulum-v1", "algo.use_sde=true", "algo.sde_sample_freq=4"),
    "normalised": (*PPO, "env=Pendulum-v1", "env.normalize_obs=true", "env.normalize_reward=true"),
    "gymnasium": (*PPO, "env=CartPole-v1", "env.backend=gymnasium", "eval.every=128"),
    "a2c": (*A2C, "env=CartPole-v1", "checkpoint.every=80"),
    "dqn": (*DQN, "algo.dueling=true", "algo.n_step=3", "buffer=prioritized", "eval.every=64"),
    "a temperature that stays": (*SAC, "env.n_envs=3", "algo.ent_coef=0.1", "checkpoint.every=64"),
}
# Runs above, or resumed runs below, import the same modules as these.
NIGHTLY = {
    "ppo": (*PPO, "env=CartPole-v1"),
    "adam": (*A2C, "env=Pendulum-v1", "algo.use_rms_prop=false"),
    "single steps": (*DQN, "env.backend=gymnasium", "env.normalize_obs=true", "algo.tau=0.5"),
    "sac": (*SAC, "env.normalize_reward=true"),
    "td3": TD3,
    "ddpg": (*REPLAYED, "algo=ddpg", "env=Pendulum-v1", "buffer=prioritized"),
}


@pytest.mark.parametrize(
    "options",
    [
        *(pytest.param(options, id=name) for name, options in RUNS.items()),
        *(pytest.param(o, id=name, marks=pytest.mark.slow) for name, o in NIGHTLY.items()),
    ],
)
def test_a_run_imports_no_torch(options: tuple[str, ...], tmp_path: Path) -> None:
    rlox(tmp_path, "train", *QUICK, *options, "algo.backend=native")
    (total,) = (int(o.partition("=")[2]) for o in options if o.startswith("total_steps="))
    finished(only_run(tmp_path), total)


def test_a_resume_and_an_evaluation_import_no_torch(tmp_path: Path) -> None:
    said = rlox(tmp_path, "train", *PPO, *QUICK, "env=CartPole-v1", "algo.backend=auto")
    assert "backend native" in said
    run = only_run(tmp_path)
    rlox(tmp_path, "train", f"resume={run}", "total_steps=512")
    finished(run, 512)
    evaluated(run, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(DQN, id="dqn"),
        pytest.param(SAC, id="sac", marks=pytest.mark.slow),  # TD3's engine has the same parts
        pytest.param(TD3, id="td3"),
    ],
)
def test_dqn_sac_and_td3_resume_evaluate_and_begin_from_a_run_without_torch(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    assert "backend native" in rlox(tmp_path, "train", *QUICK, *options, "algo.backend=auto")
    run = only_run(tmp_path)
    rlox(tmp_path, "train", f"resume={run}", "total_steps=192")
    finished(run, 192)
    evaluated(run, tmp_path)
    rlox(tmp_path, "train", *QUICK, *options, f"init_from={run}", "run_root=begun")
    finished(only_run(tmp_path / "begun"), 128)


def test_a_run_with_the_torch_backend_imports_torch(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT, "train", *PPO, *QUICK, "algo.backend=torch"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert done.returncode != 0
    assert "import of torch" in done.stderr
