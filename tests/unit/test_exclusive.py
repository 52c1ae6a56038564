"""Tests that a second thread is refused without waiting if its steps would mix with another thread's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.hard_evaluations import Dice
from helpers.waiting import PATIENCE

from rlox import GymVecEnv
from rlox.algorithms import PPO
from rlox.callbacks import Callback
from rlox.collectors import RolloutCollector
from rlox.errors import RloxError
from rlox.policies import DiscretePolicy

SMALL: dict[str, Any] = {"n_envs": 1, "seed": 1, "n_steps": 8, "batch_size": 8, "net_arch": [4]}


class GatedDice(Dice):
    """Blocks in its first step until `open_event` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.entered_event, self.open_event = threading.Event(), threading.Event()

    def step(self, action: Any) -> Any:
        self.entered_event.set()
        assert self.open_event.wait(PATIENCE)
        return super().step(action)


def call_during(gate: GatedDice, first_call: Callable[[], Any], *calls: Callable[[], Any]) -> list[str]:
    """Returns the errors of `calls` while another thread is in `first_call`, which then succeeds."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(first_call()), name="the first")
    thread.start()
    assert gate.entered_event.wait(PATIENCE)
    messages = []
    for call in calls:
        with pytest.raises(RloxError) as error_info:
            call()
        messages.append(str(error_info.value))
    gate.open_event.set()
    thread.join(PATIENCE)
    assert len(results) == 1
    return messages


def test_training_refuses_a_second_thread_that_trains_or_saves(tmp_path: Path) -> None:
    gate = GatedDice()
    ppo, twin = PPO(lambda: gate, **SMALL), PPO(Dice, **SMALL)
    told = call_during(
        gate,
        lambda: ppo.train(16),
        lambda: ppo.train(64),
        ppo.fit,
        lambda: ppo.save(tmp_path / "x"),
    )
    said = "training is under way in thread the first, expected one call at a time; "
    assert len(told) == 3
    assert all(text.startswith(said) for text in told)
    twin.train(16)
    assert (ppo.clock, ppo.summary()) == (twin.clock, twin.summary())
    ppo.save(tmp_path / "x")


def test_a_callback_of_training_may_save_and_not_train(tmp_path: Path) -> None:
    def saves(algo: Any, **_: Any) -> None:
        algo.save(tmp_path / "x")
        algo.train(64)

    callback = type("Saves", (Callback,), {"on_training_start": staticmethod(saves)})()
    with pytest.raises(RloxError, match=r"^training is under way, expected one call at a time"):
        PPO(Dice, callbacks=callback, **SMALL).train(16)
    assert (tmp_path / "x").is_dir()


def test_a_gym_vector_env_refuses_a_second_thread() -> None:
    gate = GatedDice()
    vec = GymVecEnv(lambda: gate, 1)
    vec.reset_all()
    told = call_during(gate, lambda: vec.step_all([0]), lambda: vec.step_all([0]), vec.reset_all)
    assert [text.partition(",")[0] for text in told] == [
        "the GymVecEnv is being stepped in thread the first"
    ] * 2
    assert vec.step_all([1])["obs"].shape == (1, 2)


def test_a_collector_refuses_a_second_thread() -> None:
    gate = GatedDice()
    collector = RolloutCollector(lambda: gate, seed=3)
    policy = DiscretePolicy(2, 2)
    (told,) = call_during(gate, lambda: collector.collect(policy, 4), lambda: collector.collect(policy, 4))
    assert told.startswith("a RolloutCollector is collecting in thread the first")
    assert collector.env_steps == 4
    twin = RolloutCollector(Dice, seed=3)
    twin.collect(policy, 4)
    again, same = collector.collect(policy, 4), twin.collect(policy, 4)
    assert np.array_equal(again.obs, same.obs)
