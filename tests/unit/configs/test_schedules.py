"""Tests of schedules of hyperparameters: their notations and their values over a run."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlox.algorithms import A2C, DQN, PPO
from rlox.algorithms.dqn.common import scheduled_epsilon
from rlox.configs import DQNConfig, PPOConfig, make, make_run, to_plain
from rlox.errors import ConfigError
from rlox.presets import preset_options
from rlox.runs.checkpoint import read_checkpoint


def ppo_with(value: Any) -> PPOConfig:
    return make(PPOConfig, {"learning_rate": value}, "algo")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (1e-3, [1e-3, 1e-3, 1e-3, 1e-3]),
        ("lin_1e-3", [1e-3, 7.5e-4, 5e-4, 0.0]),
        ("lin_1e-3_2e-4", [1e-3, 8e-4, 6e-4, 2e-4]),
        ([[0, 1.0], [0.5, 0.5], [1, 0.0]], [1.0, 0.75, 0.5, 0.0]),
        ([[0.25, 4.0], [0.5, 2.0]], [4.0, 4.0, 2.0, 2.0]),
        ([[0, 1.0], [0.25, 1.0], [0.25, 0.1]], [1.0, 0.1, 0.1, 0.1]),
        (lambda left: 3 * left + 1, [4.0, 3.25, 2.5, 1.0]),
    ],
)
def test_a_schedule_is_a_function_of_the_part_of_the_run_that_is_left(
    given: Any, expected: list[float]
) -> None:
    config = ppo_with(given)
    found = [config.at("learning_rate", left) for left in (1.0, 0.75, 0.5, 0.0)]
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("given", ["lin_1e-3", "lin_1e-3_2e-4", [[0, 1.0], [1, 0.0]], 0.5])
def test_a_schedule_survives_being_written_as_plain_data(given: Any) -> None:
    run = make_run({"algo": {"name": "ppo", "learning_rate": given}})
    assert make_run(to_plain(run)) == run


EXPECTED = (
    "expected a number, lin_3e-4 (falls linearly to 0), lin_3e-4_1e-5, or points "
    "[[0,3e-4],[0.5,1e-4],[1,0]] of the part of the run that is over and the value there"
)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("fast", f"algo.learning_rate='fast': {EXPECTED}"),
        ("lin_", f"algo.learning_rate='lin_': {EXPECTED}"),
        (True, f"algo.learning_rate=True: {EXPECTED}"),
        ([0, 1], f"algo.learning_rate=[0,1]: {EXPECTED}"),
        ([["a", 1]], f"algo.learning_rate=[['a',1]]: {EXPECTED}"),
        ("lin_-1", "algo.learning_rate=lin_-1: expected a value in (0, inf), got -1"),
        (0, "algo.learning_rate=0: expected a value in (0, inf), got 0"),
        ([[0, 1], [1, -1]], "algo.learning_rate=[[0,1],[1,-1]]: expected a value in (0, inf), got -1"),
        (
            [[0.5, 1], [0, 1]],
            "algo.learning_rate=[[0.5,1],[0,1]]: the parts of the run rise from 0 to 1, "
            "e.g. [[0,3e-4],[1,1e-5]]",
        ),
        (
            [[0, 1], [2, 1]],
            "algo.learning_rate=[[0,1],[2,1]]: the parts of the run rise from 0 to 1, "
            "e.g. [[0,3e-4],[1,1e-5]]",
        ),
    ],
)  # fmt: skip
def test_an_invalid_learning_rate_schedule_is_refused_with_an_explanation(given: Any, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ppo_with(given)
    assert str(raised.value) == told


def test_a_linear_schedule_trains_the_weights_that_annealing_does() -> None:
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2}
    weights = []
    for one in (
        {"learning_rate": "lin_1e-3", "clip_eps": "lin_0.3"},
        {"learning_rate": 1e-3, "anneal_lr": True, "clip_eps": 0.3, "anneal_clip": True},
        {"learning_rate": lambda left: 1e-3 * left, "clip_eps": lambda left: 0.3 * left},
        {"learning_rate": 1e-3, "clip_eps": 0.3},
    ):
        algorithm = PPO("CartPole-v1", **settings, **one)
        algorithm.train(96)
        weights.append(algorithm.learner.optimizer.vector.tolist())
    assert weights[0] == weights[1] == weights[2] != weights[3]


@pytest.mark.parametrize("kind", [PPO, A2C])
def test_the_entropy_bonus_follows_its_schedule_and_is_logged(kind: Any) -> None:
    seen: list[float] = []

    class Watch:
        def on_train_step(self, step: int, metrics: dict[str, Any]) -> None:
            seen.append(metrics["train/ent_coef"])

    algorithm = kind("CartPole-v1", n_envs=2, n_steps=16, ent_coef="lin_0.4_0.1", logger=Watch())
    algorithm.train(96)
    assert seen == pytest.approx([0.4, 0.3, 0.2])


def test_epsilon_follows_its_schedule() -> None:
    config = DQNConfig(exploration_eps=((0.0, 1.0), (0.5, 0.2), (1.0, 0.0)))
    assert [scheduled_epsilon(config, over) for over in (0, 0.25, 0.5, 1)] == pytest.approx([1, 0.6, 0.2, 0])


def test_dqn_refuses_exploration_eps_together_with_final_eps() -> None:
    data = {"name": "dqn", "exploration_eps": "lin_1", "exploration_final_eps": 0.2}
    with pytest.raises(ConfigError) as raised:
        make_run({"algo": data})
    assert str(raised.value) == ("algo.exploration_eps and algo.exploration_final_eps=0.2: give one of them")


def test_ppo_refuses_anneal_lr_together_with_a_learning_rate_schedule() -> None:
    with pytest.raises(ConfigError) as raised:
        PPO(learning_rate="lin_3e-4", anneal_lr=True)
    assert str(raised.value) == (
        "algo.anneal_lr=true and algo.learning_rate=lin_3e-4: both set its schedule; leave algo.anneal_lr out"
    )


def test_a_schedule_displaces_the_annealing_of_a_preset() -> None:
    before, _ = preset_options("ppo", "CartPole-v1", {})
    after, _ = preset_options("ppo", "CartPole-v1", {"learning_rate": "lin_5e-4_1e-4"})
    assert before["anneal_lr"] is True
    assert "anneal_lr" not in after
    given, _ = preset_options("dqn", "CartPole-v1", {"exploration_eps": "lin_1"})
    assert not {name for name in given if name.startswith("exploration_")} - {"exploration_eps"}


def test_a_loaded_policy_needs_its_callable_schedule_to_train(tmp_path: Path) -> None:
    def slower(left: float) -> float:
        return 1e-3 * left**2

    algorithm = DQN("CartPole-v1", learning_rate=slower, learning_starts=8, buffer_size=100)
    algorithm.train(40)
    algorithm.save(tmp_path / "saved")
    name = read_checkpoint(tmp_path / "saved").config["algo"]["learning_rate"]
    assert name.endswith("slower>")
    played = DQN.from_checkpoint(tmp_path / "saved")  # playing needs no schedule, training needs it
    assert played.predict([0.0] * 4) == algorithm.predict([0.0] * 4)
    with pytest.raises(ConfigError) as raised:
        played.train(80)
    assert str(raised.value) == (
        f"algo.learning_rate={name}: a callable, which is not saved; give it again: "
        "from_checkpoint(path, schedules={'learning_rate': f})"
    )
    again = DQN.from_checkpoint(tmp_path / "saved", schedules={"learning_rate": slower})
    assert again.config.algo.at("learning_rate", 0.5) == 2.5e-4
    with pytest.raises(ConfigError, match="dqn has learning_rate, exploration_eps, got 'clip_eps'"):
        DQN.from_checkpoint(tmp_path / "saved", schedules={"clip_eps": 0.1})


@pytest.mark.parametrize("value", [float("nan"), -1.0, float("inf")])
def test_ppo_refuses_and_names_an_invalid_learning_rate_of_a_schedule(value: float) -> None:
    with pytest.raises(ConfigError) as raised:
        PPO("CartPole-v1", n_envs=2, n_steps=16, learning_rate=lambda left: value)
    assert str(raised.value) == (
        f"algo.learning_rate: the schedule gives {value:g} when 1 of the run is left, expected a value in "
        "(0, inf)"
    )


@pytest.mark.parametrize("answer", [True, np.True_, "1e-3", None, [1e-3], np.array([1e-3])])
def test_a_schedule_that_gives_no_number_is_refused_as_a_value_would_be(answer: Any) -> None:
    told = f"algo.learning_rate: the schedule gives {answer!r} when 0.5 of the run is left, expected a"
    with pytest.raises(ConfigError, match=re.escape(told)):
        ppo_with(lambda left: answer).at("learning_rate", 0.5)


@pytest.mark.parametrize("number", [np.float32(0.5), np.array(0.5), torch.tensor(0.5), 1, Fraction(1, 2)])
def test_a_schedule_may_give_a_number_of_any_kind(number: Any) -> None:
    assert ppo_with(lambda left: number).at("learning_rate", 0.5) == float(number)


@pytest.mark.parametrize("points", [[[0, "1e-3"], [1, 0]], [[0, True], [1, 0]], [[False, 1], [1, 0]]])
def test_points_of_a_schedule_are_numbers_and_neither_text_nor_flags(points: Any) -> None:
    with pytest.raises(ConfigError, match=r"^algo\.learning_rate=.*expected a number"):
        ppo_with(points)


def test_schedules_accept_numpy_numbers_and_arrays_as_values() -> None:
    config = ppo_with(np.float32(0.5))
    assert config.learning_rate == 0.5
    assert ppo_with(np.array([[0, 1.0], [1, 0.5]])).at("learning_rate", 0.5) == 0.75


def test_a_written_configuration_drops_annealing_beside_a_schedule() -> None:
    run = make_run({"algo": {"name": "ppo", "learning_rate": "lin_1e-3_1e-4", "anneal_lr": True}})
    assert to_plain(run)["algo"]["anneal_lr"] is False
    assert make_run({"algo": {"name": "ppo", "anneal_lr": True}}).algo.at("learning_rate", 0.5) == 1.5e-4
