"""Tests the engine of PPO and A2C from Python: the arguments it accepts, and its errors for others."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from helpers.mid_call import on_interrupt_check
from numpy.typing import NDArray

from rlox._core import OnPolicyEngine
from rlox.errors import ConfigError, NonFiniteError, RloxError, ShapeError

ROWS, OBS, CHOICES = 12, 3, 4
NAMED = [
    ("actor.0.weight", (5, OBS)),
    ("actor.0.bias", (5,)),
    ("actor.2.weight", (CHOICES, 5)),
    ("actor.2.bias", (CHOICES,)),
    ("critic.0.weight", (1, OBS)),
    ("critic.0.bias", (1,)),
]


def engine(**changes: Any) -> OnPolicyEngine:
    sizes: dict[str, Any] = {"kind": "choices", "size": CHOICES, "obs_dim": OBS}
    return OnPolicyEngine(NAMED, actor=[5], critic=[], **(sizes | changes))


def arguments(**changes: Any) -> dict[str, Any]:
    """Returns the arguments of a call of `ppo`, with these changes."""
    draw = np.random.default_rng(0)
    column = lambda: draw.standard_normal(ROWS).astype(np.float32)  # noqa: E731
    vector = (0.3 * draw.standard_normal(len(engine()))).astype(np.float32)
    usual: dict[str, Any] = {
        "parameters": vector,
        "exp_avg": np.zeros_like(vector),
        "exp_avg_sq": np.zeros_like(vector),
        "steps": np.zeros(1, np.int64),
        "obs": draw.standard_normal((ROWS, OBS)).astype(np.float32),
        "actions": draw.integers(0, CHOICES, ROWS),
        "log_probs": column() * np.float32(0.1) - np.float32(1.4),
        "values": column(),
        "advantages": column(),
        "returns": column(),
        "order": np.stack([draw.permutation(ROWS) for _ in range(2)]),
        "batch_size": 5,
        "learning_rate": 0.01,
        "clip_eps": 0.2,
        "vf_coef": 0.5,
        "ent_coef": 0.01,
    }
    assert not changes.keys() - usual.keys() - {"mask", "max_grad_norm", "target_kl", "adam_eps"}
    return usual | changes


def learned(**changes: Any) -> NDArray[np.float32]:
    given = arguments(**changes)
    engine().ppo(**given)
    vector: NDArray[np.float32] = given["parameters"]
    return vector


def test_layouts_and_whole_numbers_of_any_kind_are_taken_alike() -> None:
    usual = arguments()
    expected = learned()
    assert not np.array_equal(expected, usual["parameters"])
    for changes in (
        {"actions": usual["actions"].astype(np.int32)},
        {"actions": usual["actions"].astype(np.uint8).tolist()},
        {"obs": np.asfortranarray(usual["obs"])},
        {"obs": np.repeat(usual["obs"], 2, 0)[::2]},
        {"obs": usual["obs"].astype(np.float64)},
        {"order": usual["order"].astype(np.int32)},
        {"mask": np.ones((ROWS, CHOICES), bool)},
    ):
        assert np.array_equal(learned(**changes), expected), changes.keys()


def test_counts_and_metrics_are_those_of_all_minibatches() -> None:
    given = arguments()
    told = engine().ppo(**given)
    assert given["steps"][0] == told["steps"] == 2 * 3
    assert told["samples"] == 2 * ROWS
    assert told["epochs"] == 2
    assert all(np.isfinite(value) for value in told.values())


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        (
            {"mask": np.ones((ROWS, 0), bool)},
            ShapeError,
            r"mask has shape \[12, 0\], expected \[12, 4\]",
        ),
        (
            {"mask": np.zeros((ROWS, CHOICES), bool)},
            ConfigError,
            "mask of row . is false for every choice",
        ),
        (
            {"actions": np.full(ROWS, CHOICES)},
            ConfigError,
            "action of row 0 is 4, expected a choice from 0 to 3",
        ),
        ({"actions": np.full(ROWS, 0.5)}, ShapeError, "actions"),
        ({"obs": np.zeros((ROWS, 2))}, ShapeError, r"obs has shape \[12, 2\], expected \[12, 3\]"),
        ({"returns": np.zeros(3)}, ShapeError, "returns has shape"),
        ({"order": [[-1]]}, ConfigError, "order has row -1, expected at least 0"),
        ({"order": [[ROWS]]}, ConfigError, "row of a minibatch is 12, expected a number below 12"),
        ({"order": np.zeros((3, 0), int)}, ConfigError, "rows of a pass is 0"),
        ({"steps": np.zeros(1, np.int32)}, ShapeError, "steps is a int32 array"),
        ({"steps": np.full(1, -1)}, ConfigError, "steps is -1"),
        ({"batch_size": 0}, ConfigError, "batch_size is 0"),
        ({"learning_rate": float("nan")}, ConfigError, "learning_rate is NaN"),
        ({"adam_eps": 0.0}, ConfigError, "eps is 0"),
        ({"max_grad_norm": -1.0}, ConfigError, "max_grad_norm is -1"),
        ({"target_kl": 0.0}, ConfigError, "target_kl is 0"),
        ({"exp_avg": np.zeros(3, np.float32)}, ShapeError, "exp_avg is a float32 array of shape"),
        ({"advantages": np.full(ROWS, np.nan)}, NonFiniteError, "policy loss by minibatch is NaN"),
    ],
)
def test_the_ppo_engine_refuses_invalid_arguments_and_changes_no_parameter(
    changes: dict[str, Any], error: type[RloxError], says: str
) -> None:
    given = arguments(**changes)
    before = given["parameters"].copy()
    with pytest.raises(error, match=says):
        engine().ppo(**given)
    assert np.array_equal(given["parameters"], before)


def test_no_two_arguments_may_be_the_same_memory() -> None:
    vector = arguments()["parameters"]
    with pytest.raises(ShapeError, match="shares memory"):
        engine().ppo(**arguments(parameters=vector, exp_avg=vector))


def test_the_error_of_a_masked_action_names_the_action() -> None:
    mask = np.ones((ROWS, CHOICES), bool)
    mask[7, 2] = False
    actions = arguments()["actions"]
    actions[7] = 2
    says = "is 2, expected a choice that the row's mask allows"
    with pytest.raises(ConfigError, match=says):
        engine().ppo(**arguments(mask=mask, actions=actions))
    with pytest.raises(ConfigError, match="mask is given, but the actions are numbers"):
        numbers = OnPolicyEngine(
            [("log_std", (CHOICES,)), *NAMED], kind="numbers", size=CHOICES, obs_dim=OBS,
            actor=[5], critic=[],
        )  # fmt: skip
        size = len(numbers)
        vectors = {name: np.zeros(size, np.float32) for name in ("parameters", "exp_avg", "exp_avg_sq")}
        numbers.ppo(**arguments(mask=mask, actions=np.zeros((ROWS, CHOICES)), **vectors))


def test_threads_that_use_one_engine_wait_for_one_another() -> None:
    shared, expected = engine(), learned()
    given = [arguments() for _ in range(4)]
    threads = [threading.Thread(target=lambda g=g: shared.ppo(**g)) for g in given]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(g["parameters"], expected) for g in given)


@pytest.mark.alone  # compares processor seconds
def test_a_signal_stops_a_long_update_soon_and_keeps_what_it_learned() -> None:
    epochs, whole = 5_000, 0.0
    while whole < 0.5:
        epochs *= 2
        begun = time.thread_time()
        engine().ppo(**arguments(order=np.tile(np.arange(ROWS), (epochs, 1))))
        whole = time.thread_time() - begun
    given = arguments(order=np.tile(np.arange(ROWS), (epochs, 1)))
    asked: list[float] = []

    def interrupt() -> None:
        asked.append(time.thread_time())
        if len(asked) == 2:  # about 40 ms after the beginning
            raise KeyboardInterrupt

    with on_interrupt_check(interrupt), pytest.raises(KeyboardInterrupt):
        engine().ppo(**given)
    assert time.thread_time() - asked[1] < whole / 4
    assert given["steps"][0] > 0
    assert np.isfinite(given["parameters"]).all()
