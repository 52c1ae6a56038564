"""Wrappers and policies of the user's own from Python: objects, and paths; what a checkpoint asks for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from helpers.own_code import TenthReward, small_net

from rlox.algorithms import PPO
from rlox.callbacks import CheckpointCallback, EarlyStoppingCallback, EvalCallback
from rlox.errors import ConfigError

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 32, "batch_size": 32, "n_epochs": 1, "seed": 5}
PATH = "helpers.own_code:TenthReward"


def returns_of(algorithm: PPO) -> list[float]:
    return list(algorithm.recent.state()["returns"])


@pytest.mark.parametrize(
    "given",
    [
        [TenthReward],
        [partial(TenthReward, part=0.1)],
        [PATH],
        [{"name": PATH, "part": 0.1}],
        [lambda env: TenthReward(env)],
    ],
)
def test_reward_wrappers_change_what_is_learned_from_and_not_what_is_told(given: Any) -> None:
    plain = PPO("CartPole-v1", env_backend="gymnasium", **SMALL)
    shaped = PPO("CartPole-v1", reward_wrappers=given, **SMALL)
    for algorithm in (plain, shaped):
        algorithm.train(64)
    assert returns_of(shaped) == returns_of(plain)  # as both act alike in their first rollout
    rewards = shaped.source.last_batch()["rewards"]
    assert rewards.min() == rewards.max() == pytest.approx(0.1)
    assert shaped.evaluate(2).mean >= 1.0


def test_wrappers_are_around_the_environment_in_training_and_evaluation() -> None:
    algorithm = PPO("CartPole-v1", wrappers=[partial(TenthReward, part=2.0)], **SMALL)
    algorithm.train(64)
    assert all(value % 2 == 0 for value in returns_of(algorithm))
    assert algorithm.evaluate(1).mean % 2 == 0


def test_shaped_environments_go_on_in_mid_episode(tmp_path: Path) -> None:
    def make() -> PPO:
        return PPO("CartPole-v1", reward_wrappers=[PATH], **SMALL)

    whole, half = make(), make()
    assert half.source.resume_grade == "exact"
    whole.train(192)
    half.train(64)
    half.save(tmp_path / "half")
    again = PPO.from_checkpoint(tmp_path / "half", reward_wrappers=[PATH])
    again.train(192)
    assert returns_of(again) == returns_of(whole)


def test_objects_are_asked_for_when_a_checkpoint_is_loaded(tmp_path: Path) -> None:
    PPO("CartPole-v1", wrappers=[TenthReward], **SMALL).save(tmp_path / "saved")
    with pytest.raises(ConfigError) as raised:
        PPO.from_checkpoint(tmp_path / "saved")
    assert str(raised.value) == (
        "env.wrappers=<TenthReward>: an object, which is not saved; give it again"
    )
    again = PPO.from_checkpoint(tmp_path / "saved", wrappers=[TenthReward])
    assert isinstance(again.collector.env.envs[0], TenthReward)


def test_a_checkpoint_that_names_code_is_loaded_when_that_is_given_again_or_trusted(
    tmp_path: Path,
) -> None:
    policy = {"name": "helpers.own_code:small_net", "hidden": 4}
    trained = PPO("CartPole-v1", policy=policy, **SMALL)
    trained.train(64)
    trained.save(tmp_path / "saved")
    with pytest.raises(ConfigError) as raised:
        PPO.from_checkpoint(tmp_path / "saved")
    assert str(raised.value) == (
        f"{tmp_path / 'saved'} names code: algo.policy=helpers.own_code:small_net\n"
        "  a run folder is data: nothing it names is imported or looked up unless you say so\n"
        "  give it again (env_id=..., env_kwargs=..., policy=..., wrappers=...), or trust=True"
    )
    obs = [0.1, 0.2, 0.3, 0.4]
    module = small_net(gym.spaces.Box(-1, 1, (4,)), gym.spaces.Discrete(2), hidden=4)
    for again in ({"trust": True}, {"policy": policy}, {"policy": module}):
        assert PPO.from_checkpoint(tmp_path / "saved", **again).predict(obs) == trained.predict(obs)


def test_callbacks_go_on_where_they_were(tmp_path: Path) -> None:
    def three() -> list[Any]:
        return [
            EarlyStoppingCallback(patience=50),
            EvalCallback(128, n_eval_episodes=1),
            CheckpointCallback(128, tmp_path / "kept"),
        ]

    first = three()
    algorithm = PPO("CartPole-v1", callbacks=first, **SMALL)
    algorithm.train(256)
    algorithm.save(tmp_path / "saved")
    second = three()
    PPO.from_checkpoint(tmp_path / "saved", callbacks=second)
    assert [callback.state() for callback in second] == [callback.state() for callback in first]
    assert first[1].eval_results and first[1].state()["evaluated"] == 2
    mixed = [
        EvalCallback(64),
        three()[0],
        EarlyStoppingCallback(patience=9),
    ]  # others, or elsewhere
    PPO.from_checkpoint(tmp_path / "saved", callbacks=mixed)
    assert mixed[0].state() == first[1].state()
    assert mixed[1].state() == first[0].state()
    assert mixed[2].state() == EarlyStoppingCallback().state()
