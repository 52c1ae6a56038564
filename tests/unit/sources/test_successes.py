"""Tests that `is_success` in the info of an episode's last step is a flag, as `terminated` is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.envs import Countdown

from rlox.algorithms import DQN, PPO
from rlox.errors import EnvError
from rlox.sources.episodes import EpisodeTracker

INVALID_FLAGS = [
    "False", [False], np.array([True]), np.array([True, False]), np.nan, 0.3, 2, {}, np.array("False"),
    torch.zeros(1),
]  # fmt: skip
VALID_FLAGS = [True, np.bool_(False), 1, 0.0, np.float32(1), np.array(False), torch.tensor(True)]


class SuccessCountdown(Countdown):
    """Ends every second step. Its info has the same `is_success` in each step."""

    def __init__(self, success: Any) -> None:
        super().__init__((2,))
        self.success = success

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        return *result, {"is_success": self.success}


@pytest.mark.parametrize("told", INVALID_FLAGS, ids=repr)
def test_a_success_that_is_no_flag_is_refused_with_its_environment(told: Any) -> None:
    tracker, infos = EpisodeTracker(3), [{"is_success": told}]
    expected = r"environment 2 .env_steps 96.*info.* has .* for is_success, expected a bool"
    with pytest.raises(EnvError, match=expected):
        tracker.finish(np.array([2]), 96, infos)


@pytest.mark.parametrize("told", VALID_FLAGS, ids=repr)
def test_an_episode_reports_its_success_as_a_bool(told: Any) -> None:
    (episode,) = EpisodeTracker(1).finish(np.array([0]), 8, [{"is_success": told}])
    assert episode.is_success is bool(told)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(PPO, {"n_steps": 16, "batch_size": 16}), (DQN, {"learning_starts": 8, "batch_size": 8})],
)
def test_training_ends_with_an_error_for_a_success_that_is_no_flag(kind: Any, settings: Any) -> None:
    run = kind(lambda: SuccessCountdown(np.array([True, False])), n_envs=2, **settings)
    with pytest.raises(EnvError, match=r"environment 0 .env_steps \d+.* an array of shape \(2,\)"):
        run.train(64)
    assert run.clock.env_steps == 0
