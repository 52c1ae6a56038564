"""Helpers for tests of the command line: small settings, results, environments that are refused or fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

# Few steps and episodes, because these tests are about the runner, not about learning.
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


class DictObservation(gym.Env[Any, Any]):
    """An observation space that no algorithm can use."""

    observation_space = spaces.Dict({"place": spaces.Box(-1.0, 1.0, (2,)), "said": spaces.Text(9)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return {"place": np.zeros(2, np.float32), "said": "go"}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return {"place": np.zeros(2, np.float32), "said": "go"}, 0.0, True, False, {}


class FailingEnv(gym.Env[Any, Any]):
    """Raises after some steps."""

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self, after: int = 40) -> None:
        self.steps_left = after

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise RuntimeError("the motor burnt out")
        return np.zeros(2, np.float32), 1.0, self.steps_left % 10 == 0, False, {}


def assert_explained(result: Result, hint: str, folder: Path) -> None:
    """Check wrong use: exit code 2, a short message with `hint`, and an empty folder."""
    assert result.code == 2
    assert hint in result.err
    assert len(result.err.strip().splitlines()) <= 8
    assert "Traceback" not in result.err + result.out
    assert list(folder.iterdir()) == []


def only_run(root: Path) -> Path:
    """Return the single run folder under `root`."""
    (status_path,) = root.glob("*/*/*/status.json")
    return status_path.parent
