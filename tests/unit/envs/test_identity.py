"""One environment object is in one place only: of training, its copies, an evaluation, a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import SyncVectorEnv
from helpers.scored import Dice
from helpers.small import SMALL_PPO
from helpers.vectors import counting

from rlox import GymVecEnv
from rlox.algorithms import PPO
from rlox.configs import EnvConfig, EvalConfig
from rlox.envs.make import Stages, make_vec
from rlox.envs.spaces import ObservationCodec
from rlox.errors import EnvError
from rlox.runs.record import record
from rlox.training.evaluate import Evaluator

SEEN = ObservationCodec.of(Dice.observation_space)


class Around(Dice):
    """An environment around another one, which is no `gymnasium.Wrapper`."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__()
        self.env = env

    @property
    def unwrapped(self) -> gym.Env[Any, Any]:
        return self.env


class Closes(Dice):
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class CopiedAsItself(Dice):
    def __deepcopy__(self, memo: Any) -> CopiedAsItself:
        return self


def limited(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    return gym.wrappers.TimeLimit(env, 5)


@pytest.mark.parametrize("wrap", [lambda env: env, limited, Around])
@pytest.mark.parametrize("workers", ["sync", pytest.param("subprocess", marks=pytest.mark.slow)])
def test_two_copies_refuse_to_be_one_object(
    wrap: Callable[[Any], gym.Env[Any, Any]], workers: str
) -> None:
    env = Dice()
    with pytest.raises(
        EnvError, match=r"gave one object for several environments, .* make a new one"
    ):
        GymVecEnv(lambda: wrap(env), 2, workers=workers, worker_envs=2)


def test_two_copies_of_an_environment_that_is_copied_as_itself_are_refused() -> None:
    with pytest.raises(EnvError, match="gave one object for several environments"):
        GymVecEnv(CopiedAsItself(), 2)


def test_two_places_of_an_evaluation_refuse_to_be_one_object() -> None:
    env = Dice()
    with pytest.raises(EnvError, match="gave one object for several environments"):
        Stages(EnvConfig("dice"), lambda: limited(env)).open(3, 0, SEEN)


def evaluator_of(algorithm: PPO) -> Evaluator:
    evaluate = algorithm.parts.evaluate
    assert isinstance(evaluate, Evaluator)
    return evaluate


def test_an_evaluation_refuses_the_object_that_training_steps_and_leaves_it_open() -> None:
    env = Closes()
    algorithm = PPO(lambda: env, n_envs=1, seed=1, **SMALL_PPO)
    algorithm.train(16)
    with pytest.raises(EnvError, match=r"very object that training steps, .* make a new one"):
        algorithm.evaluate(2)
    with pytest.raises(EnvError, match="very object that training steps"):
        record(algorithm, episodes=1, env=lambda: limited(env))
    assert env.closed == 0


def test_a_run_whose_evaluations_would_step_trainings_object_is_refused_before_it_trains() -> None:
    env = Closes()
    algorithm = PPO(lambda: env, n_envs=1, seed=1, **SMALL_PPO)
    with pytest.raises(EnvError, match=r"very object that training steps(.|\n)*reuse_env=true"):
        evaluator_of(algorithm).require_room()
    assert env.closed == 0


def test_reuse_env_evaluates_in_the_one_object_that_there_is() -> None:
    env, config = Dice(), EnvConfig("dice", n_envs=1)
    vec = make_vec(config, 1, lambda: env)
    actor = evaluator_of(PPO(Dice, n_envs=1, seed=1, **SMALL_PPO)).actor
    stages = Stages(config, lambda: env)
    assert len(Evaluator(actor, stages, EvalConfig(reuse_env=True), vec)(3, 5).returns) == 3


def test_an_object_that_training_has_closed_can_be_evaluated_in() -> None:
    env = Dice()
    algorithm = PPO(lambda: env, n_envs=1, seed=1, **SMALL_PPO)
    algorithm.close()
    assert len(algorithm.evaluate(3).returns) == 3


def one_engine() -> Callable[..., Any]:
    only = counting(1)

    def make(num_envs: int) -> Any:
        return only

    return make


def engines_of_one_environment() -> Callable[..., Any]:
    env = Dice()

    def make(num_envs: int) -> Any:
        return SyncVectorEnv([lambda: limited(env)] * num_envs)

    return make


@pytest.mark.parametrize("maker", [one_engine, engines_of_one_environment])
def test_an_evaluation_refuses_the_engine_that_training_steps_and_its_environments(
    maker: Callable[[], Any],
) -> None:
    algorithm = PPO(maker(), n_envs=1, seed=1, **SMALL_PPO)
    with pytest.raises(EnvError, match="very object that training steps"):
        algorithm.evaluate(1)


def test_an_engine_that_steps_one_object_in_several_places_is_refused() -> None:
    with pytest.raises(EnvError, match="gave one object for several environments"):
        PPO(engines_of_one_environment(), n_envs=2, seed=1, **SMALL_PPO)
