"""Tests that training, its copies, evaluations and recordings never step the same environment object."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import SyncVectorEnv
from helpers.hard_evaluations import Dice
from helpers.small_ppo import SMALL_PPO
from helpers.vectors import counting

from rlox import GymVecEnv
from rlox.algorithms import PPO
from rlox.configs import EnvConfig, EvalConfig
from rlox.envs.make import EvalEnvFactory, make_vec
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, EnvError
from rlox.runs.record import open_env, record
from rlox.training.evaluate import Evaluator

OBS_CODEC = codec_of(Dice.observation_space)


class ForeignWrapper(Dice):
    """Wraps an environment, but is no `gymnasium.Wrapper`."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__()
        self.env = env

    @property
    def unwrapped(self) -> gym.Env[Any, Any]:
        return self.env


class CloseCounter(Dice):
    """Counts how often it is closed."""

    n_closed = 0

    def close(self) -> None:
        self.n_closed += 1


class SelfCopyingEnv(Dice):
    def __deepcopy__(self, memo: Any) -> SelfCopyingEnv:
        return self


def with_time_limit(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(env, 5)


@pytest.mark.parametrize("wrap", [lambda env: env, with_time_limit, ForeignWrapper])
@pytest.mark.parametrize("workers", ["sync", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_two_copies_refuse_a_shared_object(wrap: Callable[[Any], gym.Env[Any, Any]], workers: str) -> None:
    env = Dice()
    with pytest.raises(EnvError, match=r"returned one object for several environments, .* make a new one"):
        GymVecEnv(lambda: wrap(env), 2, workers=workers, worker_envs=2)


def test_two_copies_of_an_environment_that_is_copied_as_itself_are_refused() -> None:
    with pytest.raises(EnvError, match="returned one object for several environments"):
        GymVecEnv(SelfCopyingEnv(), 2)


def test_an_evaluation_refuses_one_object_for_several_environments() -> None:
    env = Dice()
    with pytest.raises(EnvError, match="returned one object for several environments"):
        EvalEnvFactory(EnvConfig("dice"), lambda: with_time_limit(env)).open(3, 0, OBS_CODEC)


def get_evaluator(algorithm: PPO) -> Evaluator:
    evaluate = algorithm.components.evaluate
    assert isinstance(evaluate, Evaluator)
    return evaluate


def test_an_evaluation_refuses_the_object_that_training_steps_and_leaves_it_open() -> None:
    env = CloseCounter()
    algorithm = PPO(lambda: env, n_envs=1, seed=1, **SMALL_PPO)
    algorithm.train(16)
    with pytest.raises(EnvError, match=r"same object that training steps, .* make a new one"):
        algorithm.evaluate(2)
    with pytest.raises(EnvError, match="same object that training steps"):
        record(algorithm, episodes=1, env=lambda: with_time_limit(env))
    assert env.n_closed == 0


def test_require_envs_fit_refuses_evaluations_in_the_training_object() -> None:
    env = CloseCounter()
    algorithm = PPO(lambda: env, n_envs=1, seed=1, **SMALL_PPO)
    with pytest.raises(EnvError, match=r"same object that training steps(.|\n)*reuse_env=true"):
        get_evaluator(algorithm).require_envs_fit()
    assert env.n_closed == 0


def test_reuse_env_evaluates_in_the_training_object() -> None:
    env, config = Dice(), EnvConfig("dice", n_envs=1)
    vec = make_vec(config, 1, lambda: env)
    actor = get_evaluator(PPO(Dice, n_envs=1, seed=1, **SMALL_PPO)).actor
    stages = EvalEnvFactory(config, lambda: env)
    assert len(Evaluator(actor, stages, EvalConfig(reuse_env=True), vec)(3, 5).returns) == 3


def test_an_object_that_training_has_closed_can_be_evaluated_in() -> None:
    env = Dice()
    algorithm = PPO(lambda: env, n_envs=1, seed=1, **SMALL_PPO)
    algorithm.close()
    assert len(algorithm.evaluate(3).returns) == 3


class FixedReward(Dice):
    """Gives the attribute `reward` as the reward of every step."""

    reward = 1.0

    def step(self, action: Any) -> Any:
        obs, _, *rest = super().step(action)
        return obs, self.reward, *rest


def test_later_changes_to_an_environment_object_do_not_reach_evaluations() -> None:
    env = FixedReward()
    algorithm = PPO(env, n_envs=1, seed=1, **SMALL_PPO)
    env.reward = 100.0
    found = algorithm.evaluate(2)
    assert found.returns == tuple(map(float, found.lengths))


def test_a_recording_uses_the_algorithms_environment_by_default() -> None:
    for given in (FixedReward, FixedReward()):
        algorithm = PPO(given, n_envs=1, seed=1, **SMALL_PPO)
        dataset = record(algorithm, episodes=2)
        assert dataset.about["env"] == "<FixedReward>"
        assert set(dataset.columns["rewards"].tolist()) == {1.0}


def test_a_recording_without_any_environment_is_refused_with_the_remedy() -> None:
    algorithm: Any = SimpleNamespace(
        name="bc",
        components=SimpleNamespace(evaluate=None),
        config=SimpleNamespace(env=EnvConfig("none")),
    )
    with pytest.raises(ConfigError, match=r"^bc was made without an environment; give one: env=\.\.\.$"):
        open_env(algorithm).__enter__()


class RewardFromList(Dice):
    """Pops its reward from the list that it receives."""

    def __init__(self, rewards: list[float]) -> None:
        super().__init__()
        self.reward = rewards.pop()


@pytest.mark.parametrize("wrap", [{}, {"max_episode_steps": 5}])
def test_copies_of_an_environment_share_no_argument(wrap: dict[str, int]) -> None:
    gym.register("Emptying-v0", RewardFromList)
    try:
        config = EnvConfig("Emptying-v0", n_envs=2, kwargs={"rewards": [3.0]}, **wrap)
        vec = make_vec(config, 1)
        assert [env.get_wrapper_attr("reward") for env in vec.envs] == [3.0, 3.0]
        stage = EvalEnvFactory(config).open(2, 0, OBS_CODEC)
        assert [env.get_wrapper_attr("reward") for env in stage.envs] == [3.0, 3.0]
        assert config.kwargs == {"rewards": [3.0]}
    finally:
        del gym.registry["Emptying-v0"]


def make_shared_engine() -> Callable[..., Any]:
    engine = counting(1)

    def make(num_envs: int) -> Any:
        return engine

    return make


def make_shared_env_engine() -> Callable[..., Any]:
    env = Dice()

    def make(num_envs: int) -> Any:
        return SyncVectorEnv([lambda: with_time_limit(env)] * num_envs)

    return make


@pytest.mark.parametrize("maker", [make_shared_engine, make_shared_env_engine])
def test_an_evaluation_refuses_the_engine_that_training_steps_and_its_environments(
    maker: Callable[[], Any],
) -> None:
    algorithm = PPO(maker(), n_envs=1, seed=1, **SMALL_PPO)
    with pytest.raises(EnvError, match="same object that training steps"):
        algorithm.evaluate(1)


def test_an_engine_that_steps_one_object_in_several_places_is_refused() -> None:
    with pytest.raises(EnvError, match="returned one object for several environments"):
        PPO(make_shared_env_engine(), n_envs=2, seed=1, **SMALL_PPO)
