"""Tests an environment in Rust by a user: builds the example crate, then finds, trains and evaluates it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.build_env import ROOT, TARGET, build_variables

PRODUCTS = {"win32": "rlox_corridor.dll", "darwin": "librlox_corridor.dylib"}
ENV = "env=rlox_corridor:Corridor-v0"
pytestmark = pytest.mark.timeout(900)  # the first test waits for the compiler


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the built module in it."""
    folder = tmp_path_factory.mktemp("corridor")
    # Unoptimised: the build is quick, mostly with output that `cargo test` has built, and the runs take only
    # a few thousand steps.
    build = ["cargo", "build", "--locked", "-p", "rlox-corridor", "--features", "extension-module"]
    subprocess.run(build, cwd=ROOT, env=build_variables(), check=True)
    built = TARGET / "debug" / PRODUCTS.get(sys.platform, "librlox_corridor.so")
    name = "rlox_corridor.pyd" if sys.platform == "win32" else "rlox_corridor.abi3.so"
    shutil.copy(built, folder / name)
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def rlox(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "rlox_cli.main", *arguments)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def test_ppo_learns_and_evaluates_a_rust_plugin_environment(folder: Path) -> None:
    ran = rlox(folder, "train", ENV, "total_steps=16384", "hydra.run.dir=run", "eval.episodes=20")
    assert ran.returncode == 0, ran.stderr
    # Walking straight to the open door costs at most 15 steps of 0.01, so the best score is above 0.85; a
    # random door pays 0 on average. Of 20 seeds of the same task in Python the lowest scored 0.89.
    assert read(folder / "run/result.json")["score"] >= 0.5
    assert read(folder / "run/provenance.json")["resume_grade"] == "exact"
    played = rlox(folder, "evaluate", "run=run", ENV, "episodes=5")  # the run folder contains data only
    assert played.returncode == 0, played.stderr
    assert read(folder / "run/eval/last.json")["mean"] >= 0.5


def test_rlox_trains_on_a_rust_plugin_environment_in_float32(folder: Path) -> None:
    options = ("total_steps=2048", "eval.episodes=1", "env.precision=f32", "hydra.run.dir=single")
    ran = rlox(folder, "train", ENV, *options)
    assert ran.returncode == 0, ran.stderr
    assert read(folder / "single/result.json")["status"] == "done"


def test_the_module_adds_its_own_environment_to_those_of_rlox(folder: Path) -> None:
    code = (
        "import rlox, rlox_corridor as c, gymnasium as gym\n"
        "from rlox.envs.ids import find_spec\n"
        "assert set(c.native_env_ids()) == {*rlox.native_env_ids(), 'Corridor-v0'}\n"
        "assert c.VecEnv(3, env_id='Corridor-v0').reset_all().shape == (3, 2)\n"
        "env = gym.make(find_spec('rlox_corridor:Corridor-v0'))\n"
        "assert env.reset(seed=1)[0].shape == (2,)\n"
        "print('ok')"
    )
    ran = python(folder, "-c", code)
    assert ran.stdout == "ok\n", ran.stderr
