"""Tests how evaluations play: how many episodes at once, for how long, and in which environments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.envs import TAXI_ID
from helpers.hard_evaluations import EVALUATION_SEED, Dice, Endless, LimitedInstances
from helpers.small_ppo import SMALL_PPO

from rlox.algorithms import DQN, PPO, SAC, RecurrentPPO
from rlox.envs.make import EvalEnvFactory
from rlox.errors import ConfigError, EnvError, NonFiniteError
from rlox.runs.evaluation_limits import with_eval_limits
from rlox.runs.record import record
from rlox.training.evaluate import Evaluation, Evaluator

NO_LIMITS: dict[str, Any] = {"n_envs": None, "max_steps": None}


def set_eval_settings(algorithm: Any, **settings: Any) -> Any:
    """Changes settings of the algorithm's evaluations."""
    evaluator = algorithm.components.evaluate
    new_evaluator = replace(evaluator, settings=replace(evaluator.settings, **settings))
    algorithm.components = replace(algorithm.components, evaluate=new_evaluator)
    return algorithm


@pytest.fixture
def make_algorithm() -> Iterator[Any]:
    algorithms: list[Any] = []

    def make(source: Any, kind: Any = PPO, **options: Any) -> Any:
        small = SMALL_PPO if kind is PPO else {}
        algorithms.append(kind(source, **{"n_envs": 2, "seed": 1, **small, **options}))
        return algorithms[-1]

    yield make
    for algorithm in algorithms:
        algorithm.close()


@pytest.fixture
def register_dice() -> Iterator[None]:
    gym.register("Dice-v0", Dice)
    yield
    gym.registry.pop("Dice-v0")


@pytest.mark.parametrize(
    ("env", "options", "places"),
    [
        ("CartPole-v1", {}, 64),
        ("CartPole-v1", {"env_backend": "gymnasium"}, 8),
        (TAXI_ID, {}, 8),
        (Dice, {}, 3),
        (Dice, {"workers": "subprocess"}, 3),
        ("Dice-v0", {}, 3),
    ],
)
@pytest.mark.usefixtures("register_dice")
def test_the_default_number_of_evaluation_environments_depends_on_their_kind(
    env: Any, options: dict[str, Any], places: int, make_algorithm: Any
) -> None:
    assert make_algorithm(env, n_envs=3, **options).components.evaluate.n_slots == places


@pytest.mark.parametrize("kind", [PPO, RecurrentPPO, DQN])
def test_scores_are_the_same_in_one_environment_in_eight_and_in_fifty(kind: Any, make_algorithm: Any) -> None:
    algorithm = make_algorithm(Dice, kind)
    found = [set_eval_settings(algorithm, n_envs=n).evaluate(50) for n in (1, 8, 50)]
    assert found[0] == found[1] == found[2]
    assert len(set(found[0].returns)) > 10


def test_scores_of_continuous_actions_differ_by_rounding_alone(make_algorithm: Any) -> None:
    algorithm = make_algorithm("Pendulum-v1", SAC, net_arch=(8,))
    one, many = (set_eval_settings(algorithm, n_envs=n).evaluate(4).returns for n in (1, 4))
    assert one == pytest.approx(many, rel=1e-4)  # batches of different sizes are summed in different orders


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("options", [{}, {"workers": "subprocess"}])
def test_an_endless_episode_counts_with_its_return_at_the_limit(
    n_envs: int, options: dict[str, Any], make_algorithm: Any
) -> None:
    played = set_eval_settings(make_algorithm(Endless, **options), n_envs=n_envs, max_steps=7).evaluate(5)
    assert played.returns == (7.0,) * 5
    assert played.lengths == (7,) * 5
    assert played.n_cut == 5


def test_a_limit_ends_no_episode_that_ends_in_time(make_algorithm: Any) -> None:
    algorithm = make_algorithm(Dice)
    whole = algorithm.evaluate(20)
    longest = max(whole.lengths)
    assert set_eval_settings(algorithm, max_steps=longest).evaluate(20) == whole
    cut = set_eval_settings(algorithm, max_steps=longest - 1).evaluate(20)
    assert cut.n_cut == whole.lengths.count(longest)
    assert max(cut.lengths) == longest - 1


def test_limits_hold_only_for_one_evaluation(make_algorithm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    opened = EvalEnvFactory.open

    def counting(self: EvalEnvFactory, many: int, *given: Any) -> Any:
        places.append(many)
        return opened(self, many, *given)

    monkeypatch.setattr(EvalEnvFactory, "open", counting)
    algorithm = set_eval_settings(make_algorithm(Endless), n_envs=3, max_steps=5)
    played = algorithm.evaluate(4, max_steps=7, n_envs=1)
    assert (played.lengths, played.n_cut, places) == ((7,) * 4, 4, [1])
    assert algorithm.evaluate(4, max_steps=6.0).lengths == (6,) * 4
    assert algorithm.evaluate(4).lengths == (5,) * 4
    assert places == [1, 3, 3]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_steps": 0}, r"max_steps=0: .*\[1, inf\)"),
        ({"max_steps": 2.5}, r"max_steps=2\.5: expected"),
        ({"max_steps": "many"}, "max_steps=.many.: expected"),
        ({"n_envs": 0}, r"n_envs=0: .*\[1, 65536\]"),
        ({"n_envs": 70_000}, "n_envs=70000: "),
    ],
)
def test_wrong_limits_of_an_evaluation_are_refused_by_name(
    limits: dict[str, Any], told: str, make_algorithm: Any
) -> None:
    with pytest.raises(ConfigError, match=told):
        make_algorithm(Dice).evaluate(2, **limits)


def test_a_text_algorithm_refuses_limits_of_evaluations() -> None:
    for limits, told in (({"n_envs": 2}, "n_envs=2"), ({"max_steps": 9}, "max_steps=9")):
        with pytest.raises(ConfigError, match=f"{told}: grpo writes text; leave it out"):
            with_eval_limits(lambda *given: Evaluation((), (), 0), "grpo", **{**NO_LIMITS, **limits})


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("options", [{}, {"workers": "subprocess"}])
def test_an_observation_that_is_not_finite_ends_an_evaluation_as_it_ends_training(
    wrong: float, options: dict[str, Any], make_algorithm: Any
) -> None:
    algorithm = make_algorithm(lambda: Dice("obs", wrong, only=EVALUATION_SEED + 3), **options)
    with pytest.raises(NonFiniteError, match=f"evaluation episode of seed {EVALUATION_SEED + 3}"):
        algorithm.evaluate(5)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), float("-inf")])
def test_a_return_that_is_not_finite_is_named_by_its_episode(wrong: float, make_algorithm: Any) -> None:
    played = make_algorithm(lambda: Dice("reward", wrong, only=EVALUATION_SEED + 1)).evaluate(4)
    assert played.non_finite_message == (
        f"1 of 4 returns are not finite: {wrong} in the episode of seed {EVALUATION_SEED + 1}"
    )
    assert played.metrics()["eval/not_finite"] == 1
    assert not np.isfinite(played.metrics()["eval/return_mean"])


def test_finite_returns_have_no_flaw_and_no_column_of_their_own() -> None:
    played = Evaluation((1.0, 2.0), (3, 4), seed=0)
    assert played.non_finite_message == ""
    names = {"eval/return_mean", "eval/return_iqm", "eval/return_std", "eval/episodes"}
    assert set(played.metrics()) == names


@pytest.fixture
def limited_instances() -> Iterator[type[LimitedInstances]]:
    LimitedInstances.alive = LimitedInstances.max_alive = 0
    yield LimitedInstances
    LimitedInstances.limit = 1


@pytest.mark.parametrize("n_envs", [1, 2])
def test_an_evaluation_reuses_the_training_environments_without_new_ones(
    n_envs: int, limited_instances: type[LimitedInstances], make_algorithm: Any
) -> None:
    LimitedInstances.limit = n_envs
    algorithm = reuse_training_envs(make_algorithm(limited_instances, n_envs=n_envs))
    algorithm.train(64)
    played = algorithm.evaluate(6)
    assert played == make_algorithm(Dice).evaluate(6)
    assert (limited_instances.alive, limited_instances.max_alive) == (n_envs, n_envs)
    before = algorithm.recent.count
    algorithm.train(128)
    assert algorithm.recent.count > before
    assert algorithm.recent.n_lost == n_envs, "the episodes that were under way"


def test_training_goes_on_in_mid_episode_after_an_evaluation_in_environments_that_can_be_saved(
    make_algorithm: Any,
) -> None:
    whole, evaluated = (make_algorithm("CartPole-v1", env_backend="gymnasium") for _ in range(2))
    reuse_training_envs(evaluated)
    for algorithm in (whole, evaluated):
        algorithm.train(64)
    evaluated.evaluate(3)
    assert whole.train(128) == evaluated.train(128)
    assert evaluated.recent.n_lost == 0


def test_a_recording_reuses_the_training_environment_without_a_new_one(
    limited_instances: type[LimitedInstances], make_algorithm: Any
) -> None:
    algorithm = reuse_training_envs(make_algorithm(limited_instances, n_envs=1))
    algorithm.train(64)
    recorded = record(algorithm, episodes=6, seed=5)
    assert (
        recorded.about["returns"]
        == record(make_algorithm(Dice), episodes=6, seed=5, env=Dice).about["returns"]
    )
    assert (limited_instances.alive, limited_instances.max_alive) == (1, 1)
    algorithm.train(128)
    assert algorithm.recent.n_lost == 1, "the episode that was under way"


@pytest.mark.parametrize("way", [{"video": Path("film.mp4")}, {"render": True}])
def test_an_evaluation_in_the_training_environment_refuses_videos_and_rendering(
    way: dict[str, Any], limited_instances: type[LimitedInstances], make_algorithm: Any
) -> None:
    algorithm = reuse_training_envs(make_algorithm(limited_instances, n_envs=1))
    with pytest.raises(ConfigError, match="use rlox evaluate RUN video=true"):
        algorithm.evaluate(1, **way)
    assert limited_instances.max_alive == 1


class CloseRaises(Dice):
    """Raises when it is closed."""

    def close(self) -> None:
        raise OSError("connection already closed")


def test_returns_are_kept_where_environments_cannot_be_closed(
    make_algorithm: Any, caplog: pytest.LogCaptureFixture
) -> None:
    algorithm, other = make_algorithm(CloseRaises), make_algorithm(Dice)
    assert algorithm.evaluate(3) == other.evaluate(3)
    assert (
        record(algorithm, 3, env=CloseRaises).about["returns"]
        == (record(other, 3, env=Dice).about["returns"])
    )
    algorithm.close()
    told = {(each.levelname, each.getMessage()) for each in caplog.records}
    assert {level for level, _ in told} == {"WARNING"}
    assert all("raised OSError in close: connection already closed" in text for _, text in told)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "stepped by NativeVecEnv"),
        ({"env_backend": "gymnasium", "workers": "subprocess"}, "stepped by SupervisedVecEnv"),
        ({"env_backend": "gymnasium", "reward_scale": 0.5}, "env.reward_scale"),
    ],
)
def test_reuse_of_training_environments_with_other_scores_is_refused(
    options: dict[str, Any], told: str, make_algorithm: Any
) -> None:
    with pytest.raises(ConfigError, match=told):
        reuse_training_envs(make_algorithm("CartPole-v1", **options))


def test_an_evaluation_environment_that_cannot_be_made_is_an_error_before_training(
    limited_instances: type[LimitedInstances], make_algorithm: Any
) -> None:
    evaluator: Evaluator = make_algorithm(limited_instances, n_envs=1).components.evaluate
    with pytest.raises(EnvError, match=r"Address already in use(.|\n)*eval\.reuse_env=true") as told:
        evaluator.require_envs_fit()
    assert "need 1 beside the 1 of training" in str(told.value)
    assert "eval.n_envs=1" not in str(told.value), "it was one already"
    LimitedInstances.limit = 2
    evaluator.require_envs_fit()
    assert limited_instances.alive == 1


def test_too_few_possible_evaluation_environments_are_an_error_before_training(
    limited_instances: type[LimitedInstances], make_algorithm: Any
) -> None:
    LimitedInstances.limit = 3
    evaluator: Evaluator = make_algorithm(limited_instances, n_envs=2).components.evaluate
    with pytest.raises(
        EnvError, match=r"need 2 environments beside the 2 of(.|\n)*eval\.n_envs=1.*eval\.reuse_env"
    ):
        evaluator.require_envs_fit()
    assert limited_instances.alive == 2
    replace(evaluator, settings=replace(evaluator.settings, n_envs=1)).require_envs_fit()


class LicensedEnv(Dice):
    """Holds one of two licences, which are files in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        free_files = [folder / name for name in "ab" if not (folder / name).exists()]
        if not free_files:
            raise OSError("no licence is left")
        self.licence_file = free_files[0]
        self.licence_file.touch(exist_ok=False)

    def close(self) -> None:
        self.licence_file.unlink(missing_ok=True)


def test_missing_licences_of_evaluation_processes_are_an_error_before_training(
    make_algorithm: Any, tmp_path: Path
) -> None:
    source = partial(LicensedEnv, tmp_path)
    evaluator: Evaluator = make_algorithm(source, workers="subprocess", worker_envs=2).components.evaluate
    with pytest.raises(EnvError, match=r"one of them cannot be made: (.|\n)*no licence is left"):
        evaluator.require_envs_fit()


def reuse_training_envs(algorithm: Any) -> Any:
    return set_eval_settings(algorithm, reuse_env=True)


def test_an_evaluation_refuses_seeds_of_episodes_beyond_31_bits(make_algorithm: Any) -> None:
    algorithm, last = make_algorithm(Dice), 2**31 - 3
    assert len(algorithm.evaluate(3, seed=last).returns) == 3
    told = rf"^seed={last} with 4 episodes: .*\(seed={2**31}\), expected at most {2**31 - 1}"
    with pytest.raises(ConfigError, match=told):
        algorithm.evaluate(4, seed=last)
    with pytest.raises(ConfigError, match=told):
        set_eval_settings(algorithm, seed=last, episodes=4).components.evaluate.require_envs_fit()
