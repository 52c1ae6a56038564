"""Tests that wrong arguments raise an error of rlox that states the received and the expected value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.observation_spaces import Samples

from rlox.algorithms import A2C, DQN, PPO, RecurrentPPO
from rlox.callbacks import CheckpointCallback, EvalCallback
from rlox.errors import ConfigError, ShapeError, StorageError, UnsupportedSpaceError
from rlox.trainers import PPOTrainer

SMALL: dict[str, Any] = {"n_envs": 1, "n_steps": 8, "net_arch": (4,)}


@pytest.mark.parametrize("name", [".", "..", "/", "", "a/.."])
def test_save_refuses_folders_without_a_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"needs a name of its own; give it one, path='.*checkpoint'"):
        A2C(**SMALL).save(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (5, "path=5: a int, expected text or a pathlib.Path"),
        (None, "path=None: a NoneType, expected text"),
        ("a\0b", "no path has a null character"),
    ],
)
def test_a_path_of_another_kind_is_refused_by_name(path: Any, told: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: A2C(**SMALL).save(path),
        lambda: A2C.from_checkpoint(path),
        lambda: CheckpointCallback(8, path),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=told):
            call()
    if path is not None:
        with pytest.raises(ConfigError, match=told.replace("path=", "best_model_path=", 1)):
            EvalCallback(best_model_path=path)
        with pytest.raises(ConfigError, match=told.replace("path=", "init_from=", 1)):
            A2C(init_from=path, **SMALL)
        with pytest.raises(ConfigError, match=told.replace("path=", "video=", 1)):
            A2C(**SMALL).evaluate(1, video=path)


def test_a_name_longer_than_the_disk_takes_is_told() -> None:
    with pytest.raises(StorageError, match=r"cannot write a+: File name too long"):
        A2C(**SMALL).save("a" * 300)


@pytest.mark.parametrize("below", ["a file", "/proc"])
def test_the_checkpoint_callback_refuses_a_folder_that_cannot_be_written_before_the_first_step(
    below: str, tmp_path: Path
) -> None:
    (tmp_path / "a file").touch()
    callback = CheckpointCallback(8, tmp_path / below / "x")
    algorithm = A2C(callbacks=callback, **SMALL)
    told = r"^the folder .*/x cannot be written: .*; name another\n"
    with pytest.raises(StorageError, match=told):
        algorithm.train(16)
    assert algorithm.clock.now == 0


@pytest.mark.parametrize(
    ("observation", "action"),
    [
        (spaces.Discrete(2**40), spaces.Discrete(2)),
        (spaces.MultiDiscrete([2**40, 2]), spaces.Discrete(2)),
        (spaces.MultiDiscrete([2**62] * 3), spaces.Discrete(2)),
        (spaces.Dict(a=spaces.Discrete(2**40)), spaces.Discrete(2)),
        (spaces.Box(-1, 1, (2,)), spaces.Discrete(2**40)),
        (spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2**62] * 3)),
    ],
)
@pytest.mark.parametrize("facade", [A2C, DQN, RecurrentPPO])
def test_a_space_of_more_values_than_a_row_can_hold_is_refused(
    facade: Any, observation: Any, action: Any
) -> None:
    kind = "observation" if action == spaces.Discrete(2) else "action"
    told = rf"has {kind} space .*, which takes [\d,]+ numbers a row, expected at most 268,435,456; wrap it"
    with pytest.raises(UnsupportedSpaceError, match=told):
        facade(lambda: Samples(observation, action), n_envs=1)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"config": 5}, r"PPOTrainer: config=5: a int, expected a mapping of arguments to values"),
        ({"config": [("seed", 1)]}, r"PPOTrainer: config=.*: a list, expected a mapping"),
        ({"config": {5: 1}}, r"PPOTrainer: config has the key 5, expected the name of an argument"),
        (
            {"config": {"seed": 1}},
            r"PPOTrainer: seed is an argument of its own; take it out of config",
        ),
        ({"config": {"logger": None}}, r"PPOTrainer: logger is an argument of its own"),
        ({"config": {"env": "CartPole-v1"}}, r"PPOTrainer takes one environment"),
    ],
)
def test_a_trainer_says_what_is_wrong_with_its_config(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        PPOTrainer("CartPole-v1", **given)


def test_a_trainer_takes_the_environment_from_its_config() -> None:
    assert PPOTrainer(config={"env": "CartPole-v1", **SMALL}).algo.env_id == "CartPole-v1"


@pytest.mark.parametrize("facade", [A2C, RecurrentPPO])
def test_an_observation_with_a_gradient_is_refused_with_a_shape_error(
    facade: Any,
) -> None:
    options = SMALL if facade is A2C else {"n_envs": 1, "n_steps": 8, "lstm_hidden_size": 4}
    with pytest.raises(ShapeError, match=r"observation .*: Can't call numpy\(\) on Tensor"):
        facade("CartPole-v1", **options).predict(torch.zeros(4, requires_grad=True))


@pytest.mark.parametrize("name", ["learning_rate", "gamma", "n_envs"])
def test_a_setting_cannot_be_changed_on_an_algorithm_or_a_trainer(name: str) -> None:
    run, trainer = PPO("CartPole-v1"), PPOTrainer(env="CartPole-v1")
    for of in (run, trainer):
        told = rf"^{type(of).__name__}.{name} cannot be set: .*give the value there, \w+\(..., {name}=0\)"
        with pytest.raises(AttributeError, match=told):
            setattr(of, name, 0)
        assert name not in vars(of)


def test_an_attribute_that_is_no_setting_may_be_put_on_an_algorithm() -> None:
    run: Any = PPO("CartPole-v1")
    run.note, run.stop_reason = "mine", "later"
    assert (run.note, run.stop_reason) == ("mine", "later")


def replace_env(env: Any) -> Any:
    return gym.make("Pendulum-v1")


def test_a_wrapper_that_gives_another_environment_is_refused_by_name() -> None:
    told = r"env.wrappers: <replace_env> returned Pendulum-v1, which does not wrap .*, CartPoleEnv"
    with pytest.raises(ConfigError, match=told):
        PPO("CartPole-v1", wrappers=[replace_env], n_envs=1)


class Delegator(gym.Env[Any, Any]):
    """Wraps an environment without being a `gym.Wrapper`."""

    def __init__(self, env: Any) -> None:
        self.wrapped_env, self.spec = env, env.unwrapped.spec
        self.observation_space, self.action_space = env.observation_space, env.action_space


def test_a_wrapper_need_not_be_one_of_gymnasiums() -> None:
    for wrapper in (Delegator, lambda env: gym.wrappers.TimeLimit(env.unwrapped, 7)):
        assert PPO("CartPole-v1", wrappers=[wrapper], n_envs=1).predict(np.zeros(4)) in (0, 1)


def test_a_factory_of_environments_that_needs_an_argument_is_refused_by_name() -> None:
    def make_one(n: int) -> Any:
        raise AssertionError(n)

    told = "factory 'make_one' is called without arguments: missing a required argument: 'n'"
    with pytest.raises(ConfigError, match=told):
        PPO(make_one)
