"""Tests compute_n_step_returns and compute_lambda_returns against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import rlox._core as core
from rlox.errors import ConfigError, ShapeError


def n_step(rewards, next_values, terminated, ends, n, gamma, start):
    """Computes eq. 7.1 of Sutton and Barto 2018, term by term."""
    total, weight = 0.0, 1.0
    for t in range(start, min(start + n, len(rewards))):
        total += weight * rewards[t]
        weight *= gamma
        if ends[t] or t + 1 == start + n:
            return total + (0.0 if terminated[t] else weight * next_values[t])
    raise AssertionError("the last step ends")


def lambda_return(rewards, next_values, terminated, ends, gamma, lam, start):
    """Computes eq. 12.3: a weighted sum of n-step returns, the last with all remaining weight."""
    total, weight, n = 0.0, 1.0, 1
    while not ends[start + n - 1]:
        step = n_step(rewards, next_values, terminated, ends, n, gamma, start)
        total += (1.0 - lam) * weight * step
        weight *= lam
        n += 1
    return total + weight * n_step(rewards, next_values, terminated, ends, n, gamma, start)


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 2e-5), (np.float64, 1e-11)])
def test_n_step_and_lambda_returns_equal_their_definitions_on_random_rollouts(dtype, close):
    rng = np.random.default_rng(0)
    for case in range(300):
        steps, n_envs = case % 32 + 1, case % 3
        shape = (steps,) if n_envs == 0 else (steps, n_envs)
        rewards, next_values = rng.normal(size=(2, *shape)).astype(dtype)
        terminated, truncated = rng.random((2, *shape)) < 0.1
        gamma, lam = rng.choice([0.0, 0.5, 0.99, 1.0], 2)
        n = int(rng.integers(1, 40))
        flags = {"terminated": terminated, "truncated": truncated}
        windows = core.compute_n_step_returns(rewards, next_values, n, gamma, **flags)
        mixed = core.compute_lambda_returns(rewards, next_values, gamma, lam, **flags)
        assert windows.dtype == mixed.dtype == dtype
        assert windows.shape == mixed.shape == shape
        for env in range(max(n_envs, 1)):
            r, v, end, cut = (
                array.reshape(steps, -1)[:, env] for array in (rewards, next_values, terminated, truncated)
            )
            ends = end | cut
            ends[-1] = True
            given = (r.astype(np.float64), v.astype(np.float64), end, ends)
            expected = [n_step(*given, n, gamma, t) for t in range(steps)]
            np.testing.assert_allclose(windows.reshape(steps, -1)[:, env], expected, atol=close)
            expected = [lambda_return(*given, gamma, lam, t) for t in range(steps)]
            np.testing.assert_allclose(mixed.reshape(steps, -1)[:, env], expected, atol=close)


def test_n_step_and_lambda_returns_equal_numbers_computed_by_hand():
    rewards, next_values = [1.0, 2.0, 3.0, 4.0], [8.0, 4.0, 2.0, np.nan]
    flags = {"terminated": [0, 0, 0, 1], "truncated": [0, 1, 0, 0]}
    windows = core.compute_n_step_returns(rewards, next_values, 2, 0.5, **flags)
    np.testing.assert_array_equal(windows, [3.0, 4.0, 5.0, 4.0])
    mixed = core.compute_lambda_returns(rewards, next_values, 0.5, 0.5, **flags)
    np.testing.assert_array_equal(mixed, [4.0, 4.0, 4.5, 4.0])


def test_lambda_returns_are_gae_advantages_plus_values():
    rng = np.random.default_rng(1)
    rewards, values = rng.normal(size=(2, 50, 3))
    dones = rng.random((50, 3)) < 0.1
    next_values = np.vstack([values[1:], rng.normal(size=(1, 3))])
    _, returns = core.compute_gae_time_major(
        rewards, values, next_values, dones, np.zeros_like(dones), 0.98, 0.9
    )
    mixed = core.compute_lambda_returns(rewards, next_values, 0.98, 0.9, dones=dones)
    np.testing.assert_allclose(mixed, returns, atol=1e-12)


def test_lambda_0_is_the_one_step_return_and_lambda_1_the_longest():
    rng = np.random.default_rng(2)
    rewards, next_values = rng.normal(size=(2, 40))
    flags = {"terminated": rng.random(40) < 0.1, "truncated": rng.random(40) < 0.1}
    for lam, n in ((0.0, 1), (1.0, 40), (1.0, 2**64 - 1)):
        mixed = core.compute_lambda_returns(rewards, next_values, 0.9, lam, **flags)
        windows = core.compute_n_step_returns(rewards, next_values, n, 0.9, **flags)
        np.testing.assert_allclose(mixed, windows, atol=1e-12)


ROW = np.zeros(4)


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ShapeError, "next_values", lambda: core.compute_lambda_returns(ROW, ROW[:3], dones=ROW)),
        (ShapeError, "dones", lambda: core.compute_lambda_returns(ROW, ROW, dones=ROW[:3])),
        (
            ShapeError,
            "rewards has shape",
            lambda: core.compute_n_step_returns(ROW.reshape(2, 2, 1), ROW, 1, dones=ROW),
        ),
        (ConfigError, "no episode ends", lambda: core.compute_lambda_returns(ROW, ROW)),
        (
            ConfigError,
            "together",
            lambda: core.compute_n_step_returns(ROW, ROW, 1, dones=ROW, truncated=ROW),
        ),
        (ConfigError, "n is 0", lambda: core.compute_n_step_returns(ROW, ROW, 0, dones=ROW)),
        (ConfigError, "n is -1", lambda: core.compute_n_step_returns(ROW, ROW, -1, dones=ROW)),
        (
            ConfigError,
            "gamma",
            lambda: core.compute_n_step_returns(ROW, ROW, 1, float("nan"), dones=ROW),
        ),
        (ConfigError, "lam", lambda: core.compute_lambda_returns(ROW, ROW, 0.9, 2.0, dones=ROW)),
    ],
)
def test_return_kernels_refuse_wrong_arguments_by_name(error, match, call):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_return_kernels_return_empty_arrays_for_empty_rollouts(shape):
    empty = np.zeros(shape)
    assert core.compute_n_step_returns(empty, empty, 3, dones=empty).shape == shape
    assert core.compute_lambda_returns(empty, empty, dones=empty).shape == shape
