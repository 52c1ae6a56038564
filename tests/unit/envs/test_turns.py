"""Tests one environment object in several runs, and closed environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.hard_evaluations import Dice
from helpers.small_ppo import SMALL_PPO
from helpers.vectors import counting

from rlox import GymVecEnv
from rlox.algorithms import PPO
from rlox.errors import EnvError, RloxError

SOURCES: dict[str, Any] = {"engine": lambda: counting(1), "factory": lambda: share_env(Dice())}


def share_env(env: Any) -> Any:
    return lambda: env


def make_ppo(source: Any, seed: int = 1) -> PPO:
    return PPO(source, n_envs=1, seed=seed, **SMALL_PPO)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_run_refuses_to_continue_after_another_run_used_its_environment_object(kind: str) -> None:
    source = SOURCES[kind]()
    first, second = make_ppo(source), make_ppo(source, seed=2)
    rollout = 64
    first.train(rollout)
    second.train(rollout)
    second.train(2 * rollout)
    at = first.clock.now
    with pytest.raises(EnvError, match="another run has begun episodes in the same object"):
        first.train(2 * rollout)
    assert first.clock.now == at


@pytest.mark.parametrize("kind", SOURCES)
def test_successive_runs_may_use_the_same_environment_object(kind: str) -> None:
    source = SOURCES[kind]()
    for seed in (1, 2):
        run = make_ppo(source, seed)
        run.train(64)
        assert run.clock.now >= 64


def test_a_closed_algorithm_refuses_to_train_and_still_plays_and_saves(tmp_path: Any) -> None:
    run = make_ppo(Dice)
    run.close()
    with pytest.raises(RloxError, match=r"^PPO and its environments are closed"):
        run.train(64)
    run.save(tmp_path / "saved")
    assert len(run.evaluate(2).returns) == 2
    assert PPO.from_checkpoint(tmp_path / "saved", Dice).train(64)["env_steps"] >= 64


@pytest.mark.parametrize("source", [Dice, lambda num_envs: counting(num_envs)])
def test_closed_environments_refuse_to_be_stepped(source: Any) -> None:
    env = GymVecEnv(source, 2)
    env.reset_all()
    env.close()
    with pytest.raises(EnvError, match=r"is closed, expected open"):
        env.reset_all()
    with pytest.raises(EnvError, match=r"is closed, expected open"):
        env.step_all(np.zeros(2, np.int64))
