"""Tests that the reported returns equal the counts of an independent wrapper around the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.envs import EpisodeRecorder, OddRewards

from rlox.algorithms import PPO
from rlox.runs.session import Session

Account = list[tuple[int | None, float, int]]


def cartpole() -> gym.Env[Any, Any]:
    return gym.make("CartPole-v1")


def run(make: Any, folder: Path, steps: int, **options: Any) -> tuple[Account, PPO, list[Any], Any]:
    """Train in a Session and count every episode; the account has only the training episodes."""
    account: Account = []
    algorithm = PPO(lambda: EpisodeRecorder(make(), account), n_envs=3, n_steps=32, n_epochs=2, **options)
    algorithm.set_total_steps(steps)
    session = Session(algorithm, folder)
    training: list[Any] = []
    evaluate = algorithm.evaluate

    def separated(*args: Any, **kwargs: Any) -> Any:
        before = len(account)
        evaluation = evaluate(*args, **kwargs)
        training.append(account[before:])
        del account[before:]
        return evaluation

    algorithm.evaluate = separated  # type: ignore[method-assign]
    outcome = session.run()
    return account, algorithm, training, outcome


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


CASES = [
    pytest.param(cartpole, {}, id="cartpole"),
    pytest.param(OddRewards, {}, id="odd rewards"),
    pytest.param(OddRewards, {"normalize_obs": True, "normalize_reward": True}, id="normalised"),
]


@pytest.mark.parametrize(("make", "options"), CASES)
def test_training_returns_equal_the_count_of_an_independent_wrapper(
    make: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    account, algorithm, _, outcome = run(make, tmp_path, 3000, **options)
    returns = [total for _, total, _ in account]
    assert len(returns) > 30
    episodes = rows(tmp_path / "episodes.jsonl")
    # environments that end in the same step come in order of their index, as the wrappers count them
    assert [e["return"] for e in episodes] == pytest.approx(returns, rel=1e-12)
    assert [e["length"] for e in episodes] == [length for _, _, length in account]
    recent = float(np.mean(returns[-100:]))
    assert algorithm.summary()["mean_reward"] == pytest.approx(recent, rel=1e-12)
    assert outcome.train_return_last100 == pytest.approx(recent, rel=1e-12)
    last = [r for r in rows(tmp_path / "metrics.jsonl") if "train/return_mean" in r][-1]
    assert last["train/return_mean"] == pytest.approx(recent, rel=1e-12)
    lengths = [length for _, _, length in account[-100:]]
    assert last["train/length_mean"] == pytest.approx(np.mean(lengths))
    assert last["train/episodes"] == len(account)


@pytest.mark.parametrize(("make", "options"), CASES)
def test_the_final_evaluation_equals_the_count_episode_by_episode(
    make: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    _, _, evaluations, outcome = run(make, tmp_path, 500, **options)
    (counted,) = evaluations
    by_seed = {seed: (total, length) for seed, total, length in counted}
    assert sorted(by_seed) == list(range(100_000, 100_050))
    assert len(counted) == 50
    expected = [by_seed[100_000 + i] for i in range(50)]
    assert list(outcome.evaluation.returns) == pytest.approx([r for r, _ in expected], rel=1e-12)
    assert list(outcome.evaluation.lengths) == [n for _, n in expected]
    (row,) = [r for r in rows(tmp_path / "metrics.jsonl") if "eval/return_mean" in r]
    assert row["eval/return_mean"] == pytest.approx(np.mean([r for r, _ in expected]))
    assert row["eval/return_std"] == pytest.approx(np.std([r for r, _ in expected]))
    assert row["eval/episodes"] == 50


@pytest.mark.parametrize("episodes", [1, 7, 150])
def test_every_evaluation_episode_is_finished_counted_and_seeded(episodes: int) -> None:
    account: Account = []
    algorithm = PPO(lambda: EpisodeRecorder(OddRewards(), account), n_envs=1, n_steps=8)
    evaluation = algorithm.evaluate(episodes, seed=31)
    assert sorted(s for s, _, _ in account) == list(range(31, 31 + episodes))  # type: ignore[type-var]
    assert len(evaluation.returns) == episodes
    counted = sorted(account, key=lambda e: e[0] or 0)
    assert list(evaluation.returns) == pytest.approx([r for _, r, _ in counted], rel=1e-12)


def test_evaluation_is_deterministic_and_equals_playing_by_hand() -> None:
    algorithm = PPO("Pendulum-v1", n_envs=2, n_steps=64, normalize_obs=True, use_sde=True)
    algorithm.train(256)
    first, again = algorithm.evaluate(3), algorithm.evaluate(3)
    assert first == again
    by_hand = []
    for i in range(3):
        env = gym.make("Pendulum-v1")
        obs, _ = env.reset(seed=100_000 + i)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(algorithm.predict(obs))
            total, over = total + float(reward), terminated or truncated
        by_hand.append(total)
    assert list(first.returns) == pytest.approx(by_hand, rel=1e-4)


def test_evaluation_does_not_disturb_training() -> None:
    weights = []
    for evaluate in (False, True):
        algorithm = PPO("CartPole-v1", n_envs=2, n_steps=32, n_epochs=2)
        algorithm.train(64)
        if evaluate:
            algorithm.evaluate(3)
        algorithm.train(256)
        weights.append(algorithm.policy.state_dict()["actor.0.weight"].clone())
    assert weights[0].equal(weights[1])


def test_native_training_returns_are_the_undiscounted_sums_of_the_environment() -> None:
    algorithm = PPO("CartPole-v1", n_envs=4, n_steps=64, n_epochs=1)
    metrics = algorithm.train(4096)
    window = algorithm.recent.state()
    assert len(window["returns"]) == 100
    assert window["returns"] == window["lengths"]
    assert metrics["mean_reward"] == pytest.approx(np.mean(window["lengths"]))
