"""Tests that fitted Q evaluation gives a policy's value where linear equations determine it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.algorithms import PPO
from rlox.envs.actions import ActionCodec
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, ShapeError
from rlox.networks import EnsembleMLP
from rlox.offline.fqe import FQEEstimate, FQESettings, _value_bounds, fitted_q_evaluation
from rlox.offline.layer_norm import LayerNormEnsemble
from rlox.training.actor import StatelessActor

STATES, GAMMA = 5, 0.9


class Fixed(StatelessActor[Any]):
    """Gives an action for each observation by `policy`."""

    @contextmanager
    def inference_mode(self) -> Iterator[None]:
        yield

    def act(self, rows: NDArray[Any], generator: Any = None) -> Any:
        return self.policy(rows)


def actor(policy: Any, space: Any, dim: int = STATES) -> Fixed:
    seen = codec_of(spaces.Box(-np.inf, np.inf, (dim,)))
    codec = ActionCodec.of(space)
    codec = codec.unit_codec("a test", "fqe") if isinstance(space, spaces.Box) else codec
    return Fixed(policy, seen, codec, None, "cpu")


def chain(episodes: int = 400, cut: int = 12, seed: int = 0, noise: float = 0.0) -> dict[str, Any]:
    """Makes random steps on a line of states: reward s for a step to the right, termination at the right end.

    Episodes begin anywhere and are truncated after `cut` steps.
    """
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, float, int, bool, bool]] = []
    for _ in range(episodes):
        s = int(rng.integers(STATES - 1))
        for t in range(cut):
            a = int(rng.integers(2))
            after = max(s - 1, 0) if a == 0 else s + 1
            done = after == STATES - 1
            paid = float(s if a else -0.5) + noise * float(rng.normal())
            rows.append((s, a, paid, after, done, not done and t == cut - 1))
            s = after
            if done:
                break
    states, actions, rewards, after, terminated, truncated = map(np.array, zip(*rows, strict=True))
    one_hot = np.eye(STATES, dtype=np.float32)
    return {
        "obs": one_hot[states],
        "next_obs": one_hot[after],
        "actions": actions,
        "rewards": rewards.astype(np.float32),
        "terminated": terminated,
        "truncated": truncated,
    }


def solved(policy: list[int], starts: NDArray[Any]) -> float:
    """Computes the value of the policy at these states by the linear equations."""
    moves = np.zeros((STATES, STATES))
    rewards = np.zeros(STATES)
    for s in range(STATES - 1):
        after = s + 1 if policy[s] else max(s - 1, 0)
        rewards[s] = s if policy[s] else -0.5
        moves[s, after] = after != STATES - 1
    values = np.linalg.solve(np.eye(STATES) - GAMMA * moves, rewards)
    return float(values[starts].mean())


@pytest.mark.parametrize("policy", [[1, 1, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 1, 0, 0]])
def test_a_table_is_fitted_to_the_solution_of_its_equations(policy: list[int]) -> None:
    columns = chain()
    chosen = np.array(policy)
    player = actor(lambda rows: chosen[rows.argmax(1)], spaces.Discrete(2))
    ends = columns["terminated"] | columns["truncated"]
    starts = columns["obs"][np.concatenate([[True], ends[:-1]])].argmax(1)
    how = FQESettings(GAMMA, 3_000, learning_rate=0.02, tau=0.05, net_arch=(), members=20)
    found = fitted_q_evaluation(player, columns, how)
    truth = solved(policy, starts)
    assert found.value == pytest.approx(truth, abs=0.05)
    # if all episodes have the same value, the bootstraps differ only by errors of fitting
    assert found.ci90[0] - 1e-3 < truth < found.ci90[1] + 1e-3
    assert len(found.members) == 20


def one_step(n: int = 600) -> dict[str, Any]:
    """Makes episodes of one step from s with vector a and reward -(a - s)^2."""
    rng = np.random.default_rng(1)
    obs = rng.uniform(-1, 1, (n, 1)).astype(np.float32)
    taken = rng.uniform(-2, 2, (n, 1)).astype(np.float32)
    yes = np.ones(n, bool)
    rewards = -((taken - obs)[:, 0] ** 2)
    return {
        "obs": obs, "next_obs": obs, "actions": taken, "rewards": rewards,
        "terminated": yes, "truncated": ~yes,
    }  # fmt: skip


def test_fitted_q_values_of_vector_actions_rank_policies_correctly() -> None:
    columns = one_step()
    box = spaces.Box(-2.0, 2.0, (1,))
    how = FQESettings(updates=1_500, learning_rate=3e-3, members=5, net_arch=(32, 32))

    def value(policy: Any) -> FQEEstimate:
        return fitted_q_evaluation(actor(policy, box, 1), columns, how)

    good, bad = value(lambda rows: rows), value(lambda rows: rows - 1.0)
    assert good.value == pytest.approx(0.0, abs=0.1)
    assert bad.value == pytest.approx(-1.0, abs=0.15)
    assert good.ci90[0] > bad.ci90[1]


def test_the_same_seed_gives_the_same_estimate_and_another_one_another() -> None:
    columns = one_step(100)
    player = actor(lambda rows: rows, spaces.Box(-2.0, 2.0, (1,)), 1)
    one, same, other = (
        fitted_q_evaluation(player, columns, FQESettings(updates=20, members=2, seed=s)) for s in (1, 1, 2)
    )
    assert one == same
    assert one.members != other.members


def test_fewer_episodes_give_a_wider_interval() -> None:
    player = actor(lambda rows: np.ones(len(rows), np.int64), spaces.Discrete(2))
    how = FQESettings(GAMMA, 800, learning_rate=0.02, tau=0.05, net_arch=(), members=12)
    few, many = (fitted_q_evaluation(player, chain(n), how).ci90 for n in (10, 1_000))
    assert few[1] - few[0] > 2.0 * (many[1] - many[0])


def test_fitted_q_refuses_policies_that_do_not_fit_the_dataset() -> None:
    algorithm = PPO("CartPole-v1", n_envs=1, net_arch=(8,))
    with pytest.raises(ShapeError, match="observations of 5 numbers, the policy 4"):
        fitted_q_evaluation(algorithm.components.actor, chain(3), FQESettings(updates=1))
    factored = actor(None, spaces.MultiDiscrete([2, 3]))
    with pytest.raises(ConfigError, match="actions of several parts"):
        fitted_q_evaluation(factored, chain(3), FQESettings(updates=1))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"members": 0}, "members=0: expected a whole number, at least 1"),
        ({"updates": 2.5}, "updates=2.5: expected a whole number, at least 1"),
        ({"batch_size": True}, "batch_size=True: expected a whole number"),
        ({"seed": -1}, "seed=-1: expected a whole number, at least 0"),
        ({"gamma": 1.5}, "gamma=1.5: expected a number in \\[0, 1\\]"),
        ({"gamma": float("nan")}, "gamma=nan: expected a number"),
        ({"learning_rate": 0.0}, "learning_rate=0.0: expected a number in \\(0, inf\\)"),
        ({"tau": "1"}, "tau='1': expected a number in \\(0, 1\\]"),
        ({"net_arch": (64, 0)}, r"net_arch=\(64, 0\): expected widths"),
        ({"net_arch": 64}, "net_arch=64: expected widths"),
    ],
)
def test_a_fitting_refuses_settings_out_of_range(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        FQESettings(**given)


def test_fitted_q_refuses_columns_that_are_no_dataset() -> None:
    player = actor(lambda rows: np.ones(len(rows), np.int64), spaces.Discrete(2))
    whole = chain(10)
    for changed, error, told in (
        ({"truncated": None}, ConfigError, "no column truncated, expected obs, next_obs"),
        (
            {"rewards": whole["rewards"][1:]},
            ShapeError,
            "rows of the dataset: obs .* expected equal numbers",
        ),
        (
            {"terminated": whole["terminated"] * 1.0},
            ConfigError,
            "terminated .* float64, expected bool",
        ),
        (
            {"obs": np.ma.masked_equal(whole["obs"], 0)},
            ConfigError,
            "obs of the dataset: some of it is",
        ),
    ):
        columns = {k: v for k, v in ({**whole, **changed}).items() if v is not None}
        with pytest.raises(error, match=told):
            fitted_q_evaluation(player, columns, FQESettings(updates=1))


def test_nine_in_ten_intervals_have_the_value_in_them() -> None:
    """The datasets have 30 episodes from random starts, with noise in their rewards."""
    policy = np.array([1, 1, 0, 1, 0])
    player = actor(lambda rows: policy[rows.argmax(1)], spaces.Discrete(2))
    truth = solved(policy.tolist(), np.arange(STATES - 1))
    how = FQESettings(GAMMA, 400, learning_rate=0.1, tau=0.2, net_arch=(), members=19)
    found = [fitted_q_evaluation(player, chain(30, seed=seed, noise=1.0), how) for seed in range(24)]
    inside = sum(low < truth < high for low, high in (of.ci90 for of in found))
    assert 18 <= inside <= 23, inside  # intervals half as wide contain 14, twice as wide all


def test_values_far_from_all_rows_are_bounded() -> None:
    torch.manual_seed(0)
    q, x = LayerNormEnsemble(3, (4, 16, 16, 1)), torch.randn(50, 4)
    far, farther = (q(scale * x).detach() for scale in (1e4, 1e8))
    torch.testing.assert_close(far, farther, rtol=1e-2, atol=1e-2)
    plain = EnsembleMLP(3, (4, 16, 16, 1))
    assert float(plain(1e8 * x).detach().abs().max()) > 1e3 * float(far.abs().max())


def test_value_bounds_are_the_least_and_the_largest_possible_return() -> None:
    for rewards, ends in (
        ([-2.0, -1.0], (-20.0, -1.0)),
        ([0.0, 1.0], (0.0, 10.0)),
        ([-1.0, 3.0], (-10.0, 30.0)),
    ):
        assert _value_bounds(torch.tensor(rewards), 0.9) == pytest.approx(ends)
    assert _value_bounds(torch.tensor([1.0, 2.0]), 1.0) == (1.0, np.inf)


def test_fitted_q_reports_if_its_value_has_not_settled() -> None:
    columns, policy = chain(), np.ones(STATES, np.int64)
    player = actor(lambda rows: policy[rows.argmax(1)], spaces.Discrete(2))
    how = FQESettings(GAMMA, 60, learning_rate=0.1, tau=0.02, net_arch=(), members=19)
    begun = fitted_q_evaluation(player, columns, how)
    assert not begun.is_converged
    settled = fitted_q_evaluation(player, columns, replace(how, updates=600, learning_rate=0.05, tau=0.2))
    assert settled.is_converged
    assert abs(settled.value - settled.earlier_value) < abs(begun.value - begun.earlier_value)
