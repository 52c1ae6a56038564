"""Tests that the engines for replayed transitions refuse numbers out of range by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlox._core import Explorer, OffPolicyEngine, VecEnv
from rlox.errors import ConfigError

NAN, INF = float("nan"), float("inf")
CRITIC_SHAPES = [
    ("weights.0", (2, 8, 4)), ("weights.1", (2, 1, 8)), ("biases.0", (2, 8)), ("biases.1", (2, 1)),
]  # fmt: skip


def make_engine(algorithm: str) -> OffPolicyEngine:
    """Makes an engine for Pendulum: observations of 3 numbers, actions of 1."""
    n_outputs = 2 if algorithm == "sac" else 1
    actor = [
        ("actor.0.weight", (8, 3)), ("actor.0.bias", (8,)),
        ("actor.2.weight", (n_outputs, 8)), ("actor.2.bias", (n_outputs,)),
    ]  # fmt: skip
    sizes: dict[str, Any] = {"obs_dim": 3, "size": 1, "members": 2, "actor": [8], "critic": [8]}
    return OffPolicyEngine(algorithm, {"actor": actor, "critic": CRITIC_SHAPES}, activation="relu", **sizes)


# Parameters begin at multiples of 16 numbers. An actor has 24, 8, 8 and 1 numbers, critics 64, 16, 16 and 2.
ACTOR_SIZE, CRITIC_SIZE = 80, 112


@pytest.mark.parametrize("deviation", [NAN, INF, -0.1, 1e300])
def test_an_exploring_deviation_that_is_negative_or_not_finite_is_refused(deviation: float) -> None:
    with pytest.raises(ConfigError, match=r"^deviation is .*, expected a finite number >= 0"):
        Explorer(make_engine("td3"), deviation)


def test_only_an_explorer_of_td3_accepts_a_nonzero_deviation() -> None:
    with pytest.raises(ConfigError, match=r"^deviation is 0\.5, expected 0: only the engine of td3"):
        Explorer(make_engine("sac"), 0.5)
    Explorer(make_engine("sac"), 0.0)
    Explorer(make_engine("td3"), 0.5)


def collect_obs(bounds: Any) -> np.ndarray:
    """Returns the observations of two pendulums after an action of 0, the middle of the bounds."""
    envs = VecEnv(2, env_id="Pendulum-v1")
    obs = np.zeros((2, 2, 3), np.float32)
    envs.observe_into(obs[0])
    flags = [np.zeros((1, 2), bool) for _ in range(2)]
    Explorer(make_engine("td3")).collect(
        np.zeros(ACTOR_SIZE, np.float32), envs, obs, np.zeros((1, 2, 3), np.float32),
        np.zeros((1, 2, 1), np.float32), np.zeros((1, 2)), *flags, np.zeros(2), np.zeros(2, np.int64),
        np.zeros((1, 2, 1), np.float32), bounds,
    )  # fmt: skip
    return obs[1]


@pytest.mark.parametrize("bounds", [([NAN], [2]), ([-2], [NAN]), ([-INF], [2]), ([-2], [1e300]), ([2], [-2])])
def test_bounds_that_are_not_finite_or_not_in_order_are_refused(bounds: Any) -> None:
    with (
        pytest.raises(ConfigError, match=r"^bounds has .*, expected finite low <= high"),
        np.errstate(over="ignore"),
    ):
        collect_obs(tuple(np.array(end) for end in bounds))


def test_an_action_of_0_is_the_middle_of_the_bounds() -> None:
    np.testing.assert_array_equal(collect_obs(([-2], [2])), collect_obs(None))
    assert (collect_obs(([1], [1])) != collect_obs(None)).any()


def train_once(alpha: float, temperature: Any) -> dict[str, float]:
    """Trains SAC once on a batch of two rows."""

    def make_adam_state(n: int) -> tuple[Any, ...]:
        return (*(np.zeros(n, np.float32) for _ in range(3)), np.zeros(1, np.int64))

    column = np.zeros((1, 2), np.float32)
    learned = {"actor": make_adam_state(ACTOR_SIZE), "critic": make_adam_state(CRITIC_SIZE)}
    settings: dict[str, Any] = {"target_entropy": alpha} if temperature else {"alpha": alpha}
    return make_engine("sac").learn(
        learned | ({"temperature": make_adam_state(16)} if temperature else {}),
        {"critic": np.zeros(CRITIC_SIZE, np.float32)},
        np.zeros((1, 2, 3)), np.zeros((1, 2, 1)), column, np.zeros((1, 2, 3)), column,
        np.zeros((1, 2), np.float32), np.zeros((1, 2, 2, 1)),
        **settings, first=0, learning_rate=1e-3, tau=0.005, target_update_interval=1, max_grad_norm=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("alpha", "temperature", "told"),
    [
        (NAN, False, "alpha is NaN, expected at least 0"),
        (-0.1, False, r"alpha is -0\.1, expected at least 0"),
        (INF, False, "alpha is inf, expected at least 0"),
        (NAN, True, "target_entropy is NaN, expected a number"),
    ],
)
def test_a_temperature_out_of_its_range_is_refused(alpha: float, temperature: bool, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{told}"):
        train_once(alpha, temperature)


def test_a_target_entropy_may_be_negative_and_a_temperature_0() -> None:
    assert train_once(-1.0, True)["alpha"] == pytest.approx(1.0, rel=0.01)
    assert train_once(0.0, False)["alpha"] == 0.0
