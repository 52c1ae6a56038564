"""The command line, called in this process and in an empty folder."""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlox_cli import plot
from rlox_cli.main import main

# Few steps and episodes: these tests are about the runner, not about learning.
TINY = (
    "tuned=null",
    "total_steps=256",
    "algo.n_steps=32",
    "algo.batch_size=64",
    "algo.n_epochs=1",
    "env.n_envs=4",
    "eval.episodes=3",
)


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Cli = Callable[..., Result]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    monkeypatch.delenv("RLOX_CONF_PATH", raising=False)
    # Drawing takes longer than these runs; the tests that need the picture put it back.
    monkeypatch.setattr(plot, "learning_curve", lambda run: None)

    def call(*args: str) -> Result:
        capsys.readouterr()
        code = main(args)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


class DictObservation(gym.Env[Any, Any]):
    """An observation space that no algorithm can use."""

    observation_space = spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,)), "said": spaces.Text(9)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return {"place": np.zeros(2, np.float32), "said": "go"}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return {"place": np.zeros(2, np.float32), "said": "go"}, 0.0, True, False, {}


class Breaking(gym.Env[Any, Any]):
    """Works for a while, then raises."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, after: int = 40) -> None:
        self.left = after

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("the motor burnt out")
        return np.zeros(2, np.float32), 1.0, self.left % 10 == 0, False, {}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    added = {"DictObs-v0": DictObservation, "Breaking-v0": Breaking}
    for name, cls in added.items():
        gym.register(name, cls)
    yield
    for name in added:
        gym.registry.pop(name)


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    """Hydra's --info turns on debug logging for the rest of the process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One short run, for the tests that only read it."""
    root = tmp_path_factory.mktemp("template")
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", *TINY, f"run_root={root}"]) == 0
    return only_run(root)


@pytest.fixture
def trained(cli: Cli, template: Path, tmp_path: Path) -> Path:
    """A copy of that run, as a path relative to the current folder."""
    target = Path("runs/CartPole-v1/ppo") / template.name
    shutil.copytree(template, tmp_path / target, symlinks=True)
    return target


def assert_explained(result: Result, hint: str, folder: Path) -> None:
    """Wrong use: exit code 2, a short message that has `hint`, and nothing left in the folder."""
    assert result.code == 2
    assert hint in result.err
    assert len(result.err.strip().splitlines()) <= 8
    assert "Traceback" not in result.err + result.out
    assert list(folder.iterdir()) == []


def only_run(root: Path) -> Path:
    """The single run folder under `root`."""
    (found,) = root.glob("*/*/*/status.json")
    return found.parent
